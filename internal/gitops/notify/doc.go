// Package notify sends notifications about Applications, by the settings of Argo CD: the
// ConfigMap argocd-notifications-cm with services, triggers and templates, the Secret
// argocd-notifications-secret, and subscriptions in annotations of Applications and
// AppProjects.
//
//	settings      the ConfigMap and the Secret
//	subscription  who receives what
//	edge          what the edges serve of an Application, for triggers about it
//	trial         triggers and templates tried out by a person
//	record        what was sent, in an annotation of the Application
//	controller    watches and queue
//	process       one Application: what is due
//	deliver       one message: template, service, retry
//
// It promises that each message is sent once for each value of oncePer, over restarts and
// changes of the leader. The record has the intent before a message is sent and the
// result after it. A process that is killed in between leaves the intent, and the next
// one sends the message again with the same key, by which receivers recognise it. It
// sends to addresses of the settings only, which operators write; annotations name
// services and recipients.
//
// Expressions and templates are evaluated in a worker with limits on time and memory
// (package message).
//
// See decision 0071 in docs/decisions: notifications with a record of what was sent.
package notify
