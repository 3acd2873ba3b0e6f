// Package declare reads declarations: structs whose tags define the fields and
// values of an object or an annotation.
//
// A field has the tag json with its name and the tag description with one or
// two sentences. Further tags bound its value:
//
//	required:"true"          it has to be there
//	default:"10s"            what it is when it is not there
//	enum:"a,b"               the values; of a list, those of its elements
//	minimum:"1" maximum:"9"  bounds of a number
//	pattern:"^/"             an RE2 expression that a text fits
//	maxLength:"253"          bound of a text, in characters
//	minItems:"1" maxItems:"64"  bounds of a list
//	choice:"true"            of the fields of the value, or of each element of
//	                         the list, exactly one is there
//	refused:"…" ignored:"…"  why the field is not supported or has no effect, for
//	                         kinds of others
//	free:"true"              the schema does not describe the content
//
// Types are structs, pointers to them, lists, maps of text, text, whole
// numbers, booleans and [Scalar]. Decode reads a value of such a type, Schema
// describes it for a CustomResourceDefinition, and Fields lists its parts for a
// page. All three follow the same tags, so that they cannot disagree.
//
// It promises that Decode finds every problem and not only the first, and that
// no value makes it panic or grow without bound. It refuses fields that are not
// declared, and YAML that is large, deep, or has anchors.
//
// See decision 0030 in docs/decisions: fields are declared once, in struct tags.
package declare
