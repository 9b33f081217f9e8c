//! Refusals in the texts of real servers: of a form that every request to a model has, and of the content
//! of one request. The first are faults of the surroundings, the second of the content.

use agent::port::{Fault, ModelError};
use models::wire::failure::{self, Hints};
use serde_json::{Value, json};

fn plain(message: &str) -> Value {
    json!({"error": {"message": message, "type": "api_error", "param": null, "code": null}})
}

fn openai(message: &str, param: &str, code: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}})
}

fn anthropic(message: &str) -> Value {
    let error = json!({"type": "invalid_request_error", "message": message});
    json!({"type": "error", "error": error, "request_id": "req_1"})
}

fn google(message: &str) -> Value {
    json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
}

fn violation(field: &str) -> Value {
    let kind = "type.googleapis.com/google.rpc.BadRequest";
    let details = json!([{"@type": kind, "fieldViolations": [{"field": field, "description": "no"}]}]);
    let error =
        json!({"code": 400, "message": "Invalid value", "status": "INVALID_ARGUMENT", "details": details});
    json!([{ "error": error }])
}

fn vllm(message: &str) -> Value {
    json!({"object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400})
}

fn llamacpp(code: u16, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "type": "server_error"}})
}

fn fastapi(field: &str) -> Value {
    let detail = json!({"type": "extra_forbidden", "loc": ["body", field, 0], "msg": "Extra inputs are not permitted"});
    json!({ "detail": [detail] })
}

fn classed(status: u16, body: &Value) -> ModelError {
    failure::classify(status, &Hints::default(), &body.to_string())
}

#[test]
fn a_local_server_that_lacks_a_needed_feature_is_unsupported() {
    for (status, body) in [
        (
            400,
            vllm(r#""auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"#),
        ),
        (400, vllm("The provided JSON schema contains features not supported by xgrammar.")),
        (
            400,
            vllm(
                "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'no', 'input': {}}]",
            ),
        ),
        (500, llamacpp(500, "tools param requires --jinja flag")),
        (500, llamacpp(500, "Unsupported param: tools")),
        (400, llamacpp(400, "JSON schema conversion failed:\nUnrecognized schema: true")),
        (400, llamacpp(400, "Failed to initialize samplers: failed to parse grammar")),
        (400, plain("registry.ollama.ai/library/gemma3:4b does not support tools")),
        (400, json!({"error": "registry.ollama.ai/library/x does not support thinking"})),
        (400, json!({"error": "'response_format.type' must be 'json_schema' or 'text'"})),
        (
            400,
            json!({"error": "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"}),
        ),
        (400, plain("Streaming is not supported by this model")),
        (400, vllm("System role not supported")),
        (422, fastapi("stream_options")),
        (422, fastapi("tools")),
        (501, plain("not implemented")),
        (415, plain("Unsupported Media Type")),
    ] {
        is_unsupported(status, &body);
    }
}

#[test]
fn a_vendor_that_refuses_the_form_of_requests_is_unsupported() {
    let verified = "Your organization must be verified to stream this model.";
    let bound = "Unsupported parameter: 'max_tokens' is not supported with this model.";
    let system = "Unsupported value: 'messages[0].role' does not support 'system' with this model.";
    let unknown = "Invalid JSON payload received. Unknown name \"x\" at 'tools[0].function_declarations[0].parameters': Cannot find field.";
    for body in [
        openai(
            "Invalid schema for function 'x'",
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        openai("Invalid schema for response_format 'reply'", "response_format", "invalid_json_schema"),
        openai(bound, "max_tokens", "unsupported_parameter"),
        openai(system, "messages[0].role", "unsupported_value"),
        openai(verified, "stream", "unsupported_value"),
        plain("`tool calling` is not supported with this model"),
        plain("deepseek-reasoner does not support Function Calling"),
        json!({"code": "Client specified an invalid argument", "error": "Argument not supported on this model: stop"}),
        anthropic(
            "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
        ),
        anthropic("tool_choice: type \"tool\" and \"any\" are not supported for this model."),
        anthropic("AnthropicThinking may not be enabled when tool_choice forces tool use."),
        anthropic("max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens"),
        google("Function calling is not enabled for models/gemma-3-12b-it"),
        google("Developer instruction is not enabled for models/gemma-3-12b-it"),
        google(unknown),
        google(
            "* GenerateContentRequest.tools[0].function_declarations[0].name: [FIELD_INVALID] Invalid function name",
        ),
        violation("tools[0].function_declarations[5].parameters"),
    ] {
        is_unsupported(400, &body);
    }
}

fn is_unsupported(status: u16, body: &Value) {
    let error = classed(status, body);
    assert!(matches!(error, ModelError::Unsupported(_)), "{status} {body}: got `{error}`");
    assert!(error.fault() == Fault::Surroundings && !error.retryable());
    assert_eq!(error.class(), "unsupported");
}

#[test]
fn a_refusal_of_the_content_stays_a_fault_of_the_content() {
    let image = "image input is not supported - hint: you may need to provide the mmproj";
    for (status, body) in [
        (400, openai("Invalid value for 'messages[1].content'", "messages[1].content", "invalid_type")),
        (
            400,
            openai(
                "An assistant message with 'tool_calls' must be followed by tool messages",
                "messages.[2].role",
                "",
            ),
        ),
        (400, plain("Unsupported role: 'tool'")),
        (400, plain("Failed to call a function. Please adjust your prompt.")),
        (400, llamacpp(400, image)),
        (
            400,
            anthropic(
                "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: x",
            ),
        ),
        (400, anthropic("messages: text content blocks must be non-empty")),
        (400, anthropic("system: text content blocks must be non-empty")),
        (400, google("Please ensure that function call turn comes immediately after a user turn")),
        (
            400,
            google(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work",
            ),
        ),
        (400, google("* GenerateContentRequest.contents[2].parts: contents.parts must not be empty.")),
        (400, google("Request contains an invalid argument.")),
        (400, violation("contents[0].parts")),
        (400, vllm("Conversation roles must alternate user/assistant/user/assistant/...")),
        (
            400,
            vllm("[{'type': 'missing', 'loc': ('body', 'messages', 3), 'input': 'tools are not supported'}]"),
        ),
        (422, fastapi("messages")),
        (400, json!("a tool_call_id does not match, which is not supported")),
    ] {
        let error = classed(status, &body);
        assert!(matches!(error, ModelError::Invalid(_)), "{status} {body}: got `{error}`");
    }
}

#[test]
fn a_refusal_inside_a_stream_is_classed_in_the_same_way() {
    let said = failure::in_stream(&llamacpp(500, "tools param requires --jinja flag").to_string());
    assert!(matches!(said, ModelError::Unsupported(_)), "{said}");
}
