package normalize

import "slipway.dev/slipway/internal/edge/httperr"

// The rules of targets. Those that a [Hazard] breaks are for routes that do not
// allow it.
var (
	ErrTargetForm   = httperr.New(400, "target_form", "the request target is neither a path that starts with a slash nor an http or https URL")
	ErrTargetByte   = httperr.New(400, "target_byte", "the request target has a control character, a space or a byte outside ASCII; escape it with %XX")
	ErrFragment     = httperr.New(400, "fragment", "the request target has a fragment; clients keep the part after # to themselves")
	ErrAsterisk     = httperr.New(400, "asterisk", "the request target * is for OPTIONS only")
	ErrHostMismatch = httperr.New(400, "host_mismatch", "the host in the request target is not the one in the Host header")
	ErrHiddenDots   = httperr.New(400, "hidden_dots", "the path hides a dot segment behind an encoded separator")
	ErrEncodedSlash = httperr.New(400, "encoded_slash", "the path has %2F, an encoded slash, which this route does not allow")
	ErrBackslash    = httperr.New(400, "backslash", "the path has a backslash, which this route does not allow")
	ErrEncodedNull  = httperr.New(400, "encoded_null", "the path has %00, which this route does not allow")
	ErrEncodedHash  = httperr.New(400, "encoded_hash", "the path has %23, an encoded #, which this route does not allow")
	ErrSemicolon    = httperr.New(400, "semicolon", "the path has a semicolon, which this route does not allow")
	ErrBadEscape    = httperr.New(400, "bad_escape", "the path has a % that is not followed by two hex digits; write %25 for a percent sign")
)

// The rules of hosts.
var (
	ErrHostEmpty   = httperr.New(400, "host_empty", "the host is empty")
	ErrHostByte    = httperr.New(400, "host_byte", "the host has a character that host names do not have")
	ErrHostLabel   = httperr.New(400, "host_label", "the host has a label that is empty or longer than 63 bytes")
	ErrHostLength  = httperr.New(400, "host_length", "the host is longer than 253 bytes")
	ErrHostPort    = httperr.New(400, "host_port", "the port in the host is not a number from 1 to 65535")
	ErrHostAddress = httperr.New(400, "host_address", "the host has brackets that do not hold an IPv6 address")
)
