// Package v1alpha1 declares the kinds of the group argoproj.io that we read:
// Application, AppProject and ApplicationSet. Names and meaning are those of
// Argo CD, so that the same YAML works; the code is our own.
//
// The structs are the only declaration of the fields. What Decode accepts and
// the schemas of the CustomResourceDefinitions follow from their tags.
//
//	json:"path,omitzero"     the name of the field
//	description:"…"          one or two sentences, for kubectl explain
//	required:"true"          the field is required
//	enum:",allow,deny"       the values of a text; an empty one is none
//	minimum:"0"              bound of a number
//	refused:"…"              Argo CD has the field, and we do not: the text is
//	                         why and what to do
//	ignored:"…"              the field is accepted and has no effect: the text is
//	                         why, and becomes a warning
//	free:"true"              the schema does not describe the content, to stay
//	                         small; Decode checks it all the same
//
// It promises that no field is lost silently. [Decode], [DecodeProject] and
// [DecodeSet] return a refusal of every field of the spec that is unknown, not
// supported or of the wrong type, and the schemas preserve unknown fields, so
// that the API server does not drop a limit of a newer Argo CD before it can be
// refused. A part that Argo CD ignores is [Ignored] here too and listed in the
// Warnings of the decoded object: fields beside others that take precedence,
// unknown sync options, and unknown fields of an ApplicationSet, which sets no
// limits. No object makes them panic. A status is written by programs and is
// decoded leniently: what does not fit is left out.
//
// It contains no behaviour: the packages of internal/gitops implement the
// fields.
//
// See decision 0030 in docs/decisions: fields are declared once, in struct tags.
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

// Unsupported is the type of a field that Argo CD has and we do not. It has no
// content, as any value is refused.
type Unsupported struct{}
