package declare

import "encoding"

// Scalar is a value with a text form of its own. A pointer to it reads that
// form.
type Scalar interface {
	encoding.TextUnmarshaler
	// Form says how the value is written.
	Form() Form
}

// Form says how a Scalar is written.
type Form struct {
	// Name tells people what it is: time such as `10s`.
	Name string
	// Pattern fits every text that is accepted.
	Pattern string
	// Number is set when a whole number may be written in place of the text.
	Number bool
}

// Shortened is a struct with a short form of its own, which is not the value of
// one of its fields.
type Shortened interface {
	// UnmarshalShort reads the short form into a struct that has its defaults.
	UnmarshalShort(text string) error
	// ShortForm tells people how it is written.
	ShortForm() string
}
