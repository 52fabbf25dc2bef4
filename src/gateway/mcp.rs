//! The gateway's side of MCP: a server that forwards what it is asked.
//!
//! Both versions of the protocol in use are spoken: with the older handshake and sessions, and with self-contained
//! requests.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::Response;
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::Caller;
use super::gate::Gate;
use super::http::role_of;
use crate::json::{Value, json};
use crate::step::env::{EnvError, tool_error};

/// The MCP endpoint of an env for one caller.
#[derive(Clone)]
pub(super) struct McpService {
    service: StreamableHttpService<Forward, LocalSessionManager>,
    close: Arc<dyn Fn() + Send + Sync>,
}

impl McpService {
    /// Returns the endpoint.
    pub(super) fn new(gate: Arc<Gate>, caller: Caller) -> Self {
        // Host and Origin have been looked at when a request gets here.
        let config = StreamableHttpServerConfig::default()
            .with_sse_retry(None)
            .with_json_response(true)
            .with_max_request_body_bytes(512 << 20);
        let token = config.cancellation_token.clone();
        let forward = Forward { gate, caller };
        McpService {
            service: StreamableHttpService::new(
                move || Ok(forward.clone()),
                Arc::new(LocalSessionManager::default()),
                config,
            ),
            close: Arc::new(move || token.cancel()),
        }
    }

    /// Answers a request.
    pub(super) async fn handle(&self, request: Request) -> Response {
        let response = self.service.handle(request).await;
        response.map(Body::new)
    }

    /// Ends all sessions.
    pub(super) fn close(&self) {
        (self.close)();
    }
}

#[derive(Clone)]
struct Forward {
    gate: Arc<Gate>,
    caller: Caller,
}

impl Forward {
    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        let headers = context
            .extensions
            .get::<Parts>()
            .map(|parts| &parts.headers);
        self.caller.in_role(&role_of(&self.caller, headers))
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        context: &RequestContext<RoleServer>,
        method: &str,
        params: Value,
    ) -> Result<T, ErrorData> {
        let caller = self.caller(context);
        let answer = self.gate.request(&caller, method, params).await;
        read_result(answer.map_err(|error| error_data(&error))?)
    }
}

/// Reads a result of the env, as the newer version wants it: the older one does not say that a result is whole.
fn read_result<T: serde::de::DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    if let Some(members) = value.as_object_mut() {
        members
            .entry("resultType")
            .or_insert_with(|| json!("complete"));
    }
    read(value)
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    T::deserialize(value).map_err(|error| {
        ErrorData::internal_error(format!("the env's answer is none: {error}"), None)
    })
}

fn params(value: &impl serde::Serialize) -> Result<Value, ErrorData> {
    let to_value = crate::json::to_value(value);
    to_value.map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

fn error_data(error: &EnvError) -> ErrorData {
    match error {
        EnvError::Refused {
            code,
            message,
            data,
            ..
        } => {
            let code = i32::try_from(*code).unwrap_or(-32603);
            let data = (!data.is_null()).then(|| data.clone());
            ErrorData::new(ErrorCode(code), message.clone(), data)
        }
        other => ErrorData::internal_error(other.to_string(), None),
    }
}

impl ServerHandler for Forward {
    fn get_info(&self) -> ServerConfig {
        let info = self.gate.server.info();
        let has = |name: &str| info["capabilities"].get(name).is_some();
        let mut capabilities = json!({"tools": {}});
        for name in ["resources", "prompts", "completions"] {
            if has(name) {
                capabilities[name] = json!({});
            }
        }
        let mut config = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": {"name": self.gate.env_id(), "version": env!("CARGO_PKG_VERSION")},
        });
        if let Some(text) = info.get("instructions").filter(|text| text.is_string()) {
            config["instructions"] = text.clone();
        }
        read(config).expect("bug: the gateway's own description is none")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = self.caller(&context);
        let tools = self.gate.tools(&caller.role).await;
        read_result(json!({"tools": tools.map_err(|error| error_data(&error))?}))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context);
        let arguments = request.arguments.unwrap_or_default();
        let result = match self.gate.call(&caller, &request.name, arguments).await {
            Ok(result) => result,
            // Who calls a tool shall read why it may not.
            Err(error @ EnvError::Forbidden { .. }) => tool_error(&error.to_string()),
            Err(error) => return Err(error_data(&error)),
        };
        Ok(CallToolResponse::Complete(read_result::<CallToolResult>(
            result,
        )?))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.ask(&context, "resources/list", json!({})).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.ask(&context, "resources/templates/list", json!({}))
            .await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let result: ReadResourceResult = self
            .ask(&context, "resources/read", json!({"uri": request.uri}))
            .await?;
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.ask(&context, "prompts/list", json!({})).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let params = json!({"name": request.name, "arguments": request.arguments});
        let result: GetPromptResult = self.ask(&context, "prompts/get", params).await?;
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let params = params(&request)?;
        self.ask(&context, "completion/complete", params).await
    }
}
