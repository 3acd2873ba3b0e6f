package declare

import "encoding"

// Scalar is a value with a text form of its own. A pointer to it reads that
// form.
type Scalar interface {
	encoding.TextUnmarshaler
	// Form describes the text form. It must not depend on the value.
	Form() Form
}

// Form describes how a Scalar is written.
type Form struct {
	// Name is a description for the reference page, such as: time such as
	// `10s`.
	Name string
	// Pattern matches every accepted text. It becomes the pattern of the CRD
	// schema, so the API server rejects what it does not match.
	Pattern string
	// Number is set when a whole number may be written in place of the text.
	Number bool
}

// ForeignType has what a Scalar has, for a type of another module.
type ForeignType struct {
	// Schema describes the values for a CustomResourceDefinition.
	Schema map[string]any
	// Decode returns a value of the type. Its error is what to write instead.
	Decode func(value any) (any, error)
}

// Shortened is a struct with a short form of its own, which is not the value of
// one of its fields.
type Shortened interface {
	// UnmarshalShort reads the short form into a struct that has its defaults.
	UnmarshalShort(text string) error
	// ShortForm describes the short form for the reference page.
	ShortForm() string
}
