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
//	refused:"…" ignored:"…"  why the field is not supported, or is accepted and
//	                         has no effect, for kinds of others
//	free:"true"              the schema does not describe the content
//
// Types are structs, pointers to them, lists, maps, text, whole numbers,
// booleans, [Scalar], and free-form maps. The fields of an embedded struct are
// those of the struct around it. [Decoder] reads a value of such a type,
// [SchemaWriter] describes it for the CustomResourceDefinition of a [Kind], and
// [Fields] lists its parts for a [Page]. All follow the same tags, so that they
// cannot disagree.
//
// It promises that Decode finds every problem and not only the first, and that
// no value makes it panic or grow without bound. It refuses fields that are not
// declared, and YAML that is large, deep, or has anchors.
//
// See decision 0030 in docs/decisions: fields are declared once, in struct tags.
package declare
