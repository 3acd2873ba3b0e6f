package normalize

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
)

// Check returns the error for a hazard in h that is not in allow, or nil.
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
