//! [`service!`](crate::service!): generates a gRPC service from a list of its calls.
//!
//! It generates three things: a trait of the calls, a server that turns HTTP requests into calls of the trait, and a
//! client. A call is `unary` (one response) or `stream` (any number of responses).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::codegen::Service;
use tonic::{Request, Response, Status};

/// Adapts a function to tonic's service of one method.
#[derive(Debug)]
pub struct Method<F>(pub F);

impl<F, Q, A, Answer> Service<Request<Q>> for Method<F>
where
    F: FnMut(Request<Q>) -> Answer,
    Answer: Future<Output = Result<Response<A>, Status>> + Send + 'static,
{
    type Response = Response<A>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        Box::pin((self.0)(request))
    }
}

/// The response to a call of an unknown method.
#[must_use]
pub fn unimplemented() -> tonic::codegen::http::Response<tonic::body::Body> {
    Status::unimplemented("unknown method").into_http()
}

/// Generates the trait, the server and the client of a gRPC service. Its crate needs `tonic` and `tonic-prost`.
#[macro_export]
macro_rules! service {
    (
        $(#[$doc:meta])*
        $trait:ident, $server:ident, $client:ident = $service:literal {
            $(
                $(#[$method_doc:meta])*
                $kind:ident $method:ident($request:ty) -> $answer:ty = $name:literal;
            )*
        }
    ) => {
        $(#[$doc])*
        pub trait $trait: Send + Sync + 'static {
            $(
                $(#[$method_doc])*
                ///
                /// # Errors
                /// The status that is returned to the caller instead of a response.
                fn $method(
                    &self,
                    request: tonic::Request<$request>,
                ) -> impl Future<Output = Result<tonic::Response<$crate::service!(@out $kind $answer)>, tonic::Status>> + Send;
            )*
        }

        #[doc = concat!("Serves a [`", stringify!($trait), "`].")]
        pub struct $server<T> {
            inner: std::sync::Arc<T>,
        }

        impl<T: $trait> $server<T> {
            /// The path prefix of its methods.
            pub const NAME: &'static str = $service;

            /// Serves `inner`.
            #[must_use]
            pub fn new(inner: T) -> Self {
                Self { inner: std::sync::Arc::new(inner) }
            }
        }

        impl<T> Clone for $server<T> {
            fn clone(&self) -> Self {
                Self { inner: self.inner.clone() }
            }
        }

        impl<T> std::fmt::Debug for $server<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($server)).finish_non_exhaustive()
            }
        }

        impl<T: $trait> tonic::server::NamedService for $server<T> {
            const NAME: &'static str = $service;
        }

        impl<T, B> tonic::codegen::Service<tonic::codegen::http::Request<B>> for $server<T>
        where
            T: $trait,
            B: tonic::codegen::Body + Send + 'static,
            B::Error: Into<tonic::codegen::StdError> + Send + 'static,
        {
            type Response = tonic::codegen::http::Response<tonic::body::Body>;
            type Error = std::convert::Infallible;
            type Future = tonic::codegen::BoxFuture<Self::Response, Self::Error>;

            fn poll_ready(
                &mut self,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: tonic::codegen::http::Request<B>) -> Self::Future {
                match request.uri().path() {
                    $(
                        concat!("/", $service, "/", $name) => {
                            let inner = self.inner.clone();
                            let method = $crate::service::Method(move |request: tonic::Request<$request>| {
                                let inner = inner.clone();
                                async move { inner.$method(request).await }
                            });
                            Box::pin(async move {
                                let codec = tonic_prost::ProstCodec::<$answer, $request>::default();
                                let mut grpc = tonic::server::Grpc::new(codec)
                                    .max_decoding_message_size($crate::MAX_MESSAGE);
                                Ok($crate::service!(@serve $kind grpc method request))
                            })
                        }
                    )*
                    _ => Box::pin(async { Ok($crate::service::unimplemented()) }),
                }
            }
        }

        #[doc = concat!("Calls a [`", stringify!($trait), "`].")]
        #[derive(Clone, Debug)]
        pub struct $client {
            grpc: tonic::client::Grpc<tonic::transport::Channel>,
        }

        impl $client {
            /// A client over this connection.
            #[must_use]
            pub fn new(channel: tonic::transport::Channel) -> Self {
                let grpc = tonic::client::Grpc::new(channel);
                Self { grpc: grpc.max_decoding_message_size($crate::MAX_MESSAGE) }
            }

            /// Sets the limit of the size of responses, in bytes.
            #[must_use]
            pub fn max_message(self, bytes: usize) -> Self {
                Self { grpc: self.grpc.max_decoding_message_size(bytes) }
            }

            $(
                $(#[$method_doc])*
                ///
                /// # Errors
                /// The status of the server, or of a failed connection.
                pub async fn $method(
                    &mut self,
                    request: impl tonic::IntoRequest<$request>,
                ) -> Result<tonic::Response<$crate::service!(@in $kind $answer)>, tonic::Status> {
                    let ready = self.grpc.ready().await;
                    ready.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
                    let path = tonic::codegen::http::uri::PathAndQuery::from_static(
                        concat!("/", $service, "/", $name),
                    );
                    let codec = tonic_prost::ProstCodec::<$request, $answer>::default();
                    $crate::service!(@call $kind self request path codec)
                }
            )*
        }
    };

    (@out unary $answer:ty) => { $answer };
    (@out stream $answer:ty) => { tonic::codegen::BoxStream<$answer> };
    (@in unary $answer:ty) => { $answer };
    (@in stream $answer:ty) => { tonic::Streaming<$answer> };
    (@serve unary $grpc:ident $method:ident $request:ident) => { $grpc.unary($method, $request).await };
    (@serve stream $grpc:ident $method:ident $request:ident) => {
        $grpc.server_streaming($method, $request).await
    };
    (@call unary $self:ident $request:ident $path:ident $codec:ident) => {
        $self.grpc.unary($request.into_request(), $path, $codec).await
    };
    (@call stream $self:ident $request:ident $path:ident $codec:ident) => {
        $self.grpc.server_streaming($request.into_request(), $path, $codec).await
    };
}
