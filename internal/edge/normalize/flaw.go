package normalize

// Flaw is the reason for which a target or a host is refused. It is an error,
// and can be compared with errors.Is. The response to a Flaw is 400.
type Flaw uint8

// The flaws of targets.
const (
	// ErrTargetForm: neither a path, nor an http(s) URL, nor the asterisk.
	ErrTargetForm Flaw = iota + 1
	// ErrTargetByte: a control character, a space or a byte outside ASCII.
	ErrTargetByte
	// ErrFragment: a '#' that is not escaped.
	ErrFragment
	// ErrAsterisk: the target "*" with a method other than OPTIONS.
	ErrAsterisk
	// ErrHostMismatch: an absolute target whose authority is not Host.
	ErrHostMismatch
	// ErrHiddenDots: a dot segment behind an encoded separator.
	ErrHiddenDots
	// ErrEncodedSlash: the hazard EncodedSlash, not allowed here.
	ErrEncodedSlash
	// ErrBackslash: the hazard Backslash, not allowed here.
	ErrBackslash
	// ErrEncodedNull: the hazard EncodedNull, not allowed here.
	ErrEncodedNull
	// ErrEncodedHash: the hazard EncodedHash, not allowed here.
	ErrEncodedHash
	// ErrSemicolon: the hazard Semicolon, not allowed here.
	ErrSemicolon
	// ErrBadEscape: the hazard BadEscape, not allowed here.
	ErrBadEscape
)

// The flaws of hosts.
const (
	// ErrHostEmpty: no host at all.
	ErrHostEmpty Flaw = iota + 32
	// ErrHostByte: a character that no host name has.
	ErrHostByte
	// ErrHostLabel: an empty label, or one longer than 63 bytes.
	ErrHostLabel
	// ErrHostLength: a name longer than 253 bytes.
	ErrHostLength
	// ErrHostPort: a port that is not a number from 1 to 65535.
	ErrHostPort
	// ErrHostAddress: brackets that do not hold an IPv6 address.
	ErrHostAddress
)

// flawText holds the label for metrics and logs, and the sentence for people.
func flawText(f Flaw) (label, text string) {
	switch f {
	case ErrTargetForm:
		return "target_form", "the request target is neither a path that starts with a slash nor an http or https URL"
	case ErrTargetByte:
		return "target_byte", "the request target has a control character, a space or a byte outside ASCII; escape it with %XX"
	case ErrFragment:
		return "fragment", "the request target has a fragment; clients keep the part after # to themselves"
	case ErrAsterisk:
		return "asterisk", "the request target * is for OPTIONS only"
	case ErrHostMismatch:
		return "host_mismatch", "the host in the request target is not the one in the Host header"
	case ErrHiddenDots:
		return "hidden_dots", "the path hides a dot segment behind an encoded separator"
	case ErrEncodedSlash:
		return "encoded_slash", "the path has %2F, an encoded slash, which this route does not allow"
	case ErrBackslash:
		return "backslash", "the path has a backslash, which this route does not allow"
	case ErrEncodedNull:
		return "encoded_null", "the path has %00, which this route does not allow"
	case ErrEncodedHash:
		return "encoded_hash", "the path has %23, an encoded #, which this route does not allow"
	case ErrSemicolon:
		return "semicolon", "the path has a semicolon, which this route does not allow"
	case ErrBadEscape:
		return "bad_escape", "the path has a % that is not followed by two hex digits; write %25 for a percent sign"
	case ErrHostEmpty:
		return "host_empty", "the host is empty"
	case ErrHostByte:
		return "host_byte", "the host has a character that host names do not have"
	case ErrHostLabel:
		return "host_label", "the host has a label that is empty or longer than 63 bytes"
	case ErrHostLength:
		return "host_length", "the host is longer than 253 bytes"
	case ErrHostPort:
		return "host_port", "the port in the host is not a number from 1 to 65535"
	case ErrHostAddress:
		return "host_address", "the host has brackets that do not hold an IPv6 address"
	}
	return "unknown", "the request target or host is not valid"
}

// Error returns the description for people.
func (f Flaw) Error() string {
	_, text := flawText(f)
	return text
}

// Label returns a short name of the flaw, for metrics and logs.
func (f Flaw) Label() string {
	label, _ := flawText(f)
	return label
}

// Status returns the HTTP status of the response.
func (f Flaw) Status() int { return 400 }

// Hazard is a set of spellings that backends read differently.
// Each is refused unless the route that serves the request allows it.
type Hazard uint8

// The hazards. Normalising keeps what they spell, so that a backend that needs
// them gets them: escapes stay escaped, a raw backslash becomes %5C, the
// percent sign of a bad escape becomes %25.
const (
	// EncodedSlash is %2F: one segment for some, two for others.
	EncodedSlash Hazard = 1 << iota
	// Backslash is \ or %5C: a separator on Windows and in browsers.
	Backslash
	// EncodedNull is %00: the end of the path for programs written in C.
	EncodedNull
	// EncodedHash is %23: cuts the path where it is decoded and parsed again.
	EncodedHash
	// Semicolon is ; or %3B: starts path parameters that Java servers drop.
	Semicolon
	// BadEscape is a % without two hex digits: decoded by guessing.
	BadEscape

	// NoHazard allows none of them.
	NoHazard Hazard = 0
	// AllHazards is every hazard there is.
	AllHazards = EncodedSlash | Backslash | EncodedNull | EncodedHash | Semicolon | BadEscape
)

// Check returns the flaw for a hazard in h that is not in allow, or nil.
func (h Hazard) Check(allow Hazard) error {
	left := h &^ allow
	switch {
	case left == 0:
		return nil
	case left&EncodedSlash != 0:
		return ErrEncodedSlash
	case left&Backslash != 0:
		return ErrBackslash
	case left&EncodedNull != 0:
		return ErrEncodedNull
	case left&EncodedHash != 0:
		return ErrEncodedHash
	case left&Semicolon != 0:
		return ErrSemicolon
	}
	return ErrBadEscape
}
