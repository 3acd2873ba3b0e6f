// Package service sends notifications: one file for each service, with the options and
// the fields of templates that Argo CD documents.
//
//	service   what services have in common, and which there are
//	client    requests over HTTP, and errors that a retry does not repair
//	email, slack, webhook, …  the services
//
// It promises that a request is bounded in time, that a response is read up to a limit,
// and that addresses are those that the policy for outgoing connections allows. Errors
// have no address and no credential in them: people without rights to the settings read
// them. A message has a key that is the same at every attempt, and each service passes it
// on in the way by which its receivers recognise what they have already.
package service
