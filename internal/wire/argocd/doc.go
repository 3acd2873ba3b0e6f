// Package argocd describes the part of Argo CD's API that runtimes serve to its
// clients: the procedures with their paths and rights, and the messages.
//
//	procedures     what is served, in gRPC and as REST, and who may call it
//	schema         the messages, compiled from the .proto files of this folder
//	encode         JSON documents become messages, as Kubernetes' types encode them
//	request        REST requests become messages; fields of a message
//
// It promises that both forms of a request give the same message, so that the
// platform, which decides and audits, and the runtime, which serves, read it
// alike. Names and numbers of fields are Argo CD's; fields with credentials are
// left out of the messages.
//
// It serves nothing itself. See decision 0049 in docs/decisions.
package argocd
