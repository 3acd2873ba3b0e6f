// Package v1alpha1 declares the kinds of the group argoproj.io that we read:
// Application, AppProject and ApplicationSet. The names are those that Argo CD
// has, so that the same YAML means the same here; the code is our own.
//
// The structs are the one declaration of what can be written. Everything else
// follows from their tags: what Decode accepts, and the schemas in the
// CustomResourceDefinitions.
//
//	json:"path,omitzero"     the name of the field
//	description:"…"          one or two sentences, for kubectl explain
//	required:"true"          it has to be there
//	enum:"allow,deny"        the values of a text
//	minimum:"0"              bound of a number
//	refused:"…"              Argo CD has the field, and we do not: the text says
//	                         why and what to do
//	ignored:"…"              the field is accepted and has no effect: the text says
//	                         why, and becomes a [Warning]
//	free:"true"              the schema says nothing about the content, to stay
//	                         small; Decode checks it all the same
//
// It promises that nothing that was written is lost in silence. [Decode],
// [DecodeProject] and [DecodeSet] return a [Refused] for every field of the
// spec that is unknown, not supported or of the wrong type, and the schemas keep
// unknown fields, so that the API server does not drop a limit that a newer
// Argo CD wrote before we could refuse it. A part that Argo CD ignores is ignored
// here too and becomes a [Warning] of the decoded object: fields beside others
// that take precedence, unknown sync options, and unknown fields of an
// ApplicationSet, which sets no limits. No object makes them panic. A status is
// written by programs and is decoded leniently: what does not fit is left out.
//
// It refuses to know what a field does: packages of internal/gitops do.
package v1alpha1

// The group and version of the kinds, as written in apiVersion.
const (
	Group      = "argoproj.io"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
)

// The kinds.
const (
	KindApplication    = "Application"
	KindAppProject     = "AppProject"
	KindApplicationSet = "ApplicationSet"
)

// Unsupported is the type of a field that Argo CD has and we do not. It holds
// nothing: what is written there is refused.
type Unsupported struct{}
