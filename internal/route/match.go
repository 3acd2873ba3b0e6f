package route

import (
	"net/netip"
	"strings"
)

// Match selects requests to the host of a rule. All conditions must hold; the zero
// Match selects all.
type Match struct {
	Path PathMatch `json:"path,omitzero"`
	// PathOrder is a text whose length orders an expression, in place of the length of
	// the literal text that it starts with. Expressions of one length come in the
	// descending order of their texts. So they are ordered as nginx has them.
	PathOrder string `json:"pathOrder,omitempty"`
	// Scheme limits the rule to plain or to encrypted requests.
	Scheme Scheme `json:"scheme,omitempty"`
	// Methods are the methods that fit, in capitals; none means all.
	Methods []string `json:"methods,omitempty"`
	// Headers must all hold. Of a header that is there more than once, one
	// value that fits is enough.
	Headers []ValueMatch `json:"headers,omitempty"`
	// Query holds conditions on the decoded parameters of the query.
	Query []ValueMatch `json:"query,omitempty"`
	// Further are conditions that the fields above cannot express. All must hold.
	Further []Condition `json:"further,omitempty"`
}

// Condition is a condition on one part of a request, or the opposite of one. Exactly one
// part is set.
type Condition struct {
	// Not selects the requests that do not meet the condition.
	Not bool `json:"not,omitempty"`
	// Host is a name or a wildcard as in Rule, and HostRegexp an RE2 expression that
	// finds something in the host.
	Host       string      `json:"host,omitempty"`
	HostRegexp string      `json:"hostRegexp,omitempty"`
	Path       *PathMatch  `json:"path,omitempty"`
	Method     string      `json:"method,omitempty"`
	Header     *ValueMatch `json:"header,omitempty"`
	Query      *ValueMatch `json:"query,omitempty"`
	// Clients are the networks that the address of the client is in one of.
	Clients []netip.Prefix `json:"clients,omitempty"`
}

// Conditions is the number of conditions apart from the path. Methods are one
// condition, however many of them fit.
func (m *Match) Conditions() int {
	count := len(m.Headers) + len(m.Query) + len(m.Further)
	if m.Scheme != "" {
		count++
	}
	if len(m.Methods) > 0 {
		count++
	}
	return count
}

// PathMatch is a condition on the path. The zero value fits every path.
type PathMatch struct {
	Type  PathType `json:"type,omitempty"`
	Value string   `json:"value,omitempty"`
}

// PathType is how a path is compared. Paths are compared byte by byte, in the
// normalised spelling that is also forwarded.
type PathType string

// The ways to compare a path.
const (
	// PathExact fits the same path only: /foo does not fit /foo/.
	PathExact PathType = "exact"
	// PathPrefix fits element by element: /foo and /foo/ both fit /foo, /foo/
	// and /foo/bar, and not /foobar.
	PathPrefix PathType = "prefix"
	// PathCharacterPrefix fits letter by letter: /foo fits /foobar.
	PathCharacterPrefix PathType = "characterPrefix"
	// PathRegexp fits where the RE2 expression finds something in the path. It
	// is not anchored; write ^ and $ where that is meant.
	PathRegexp PathType = "regexp"
)

// Literal returns the text that every matching path starts with. For an exact path
// it is the path, for an element-wise prefix the prefix without the slash at its
// end, for an expression its [LiteralPrefix].
func (p PathMatch) Literal() string {
	switch p.Type {
	case PathPrefix:
		if p.Value == "/" {
			return p.Value
		}
		return strings.TrimSuffix(p.Value, "/")
	case PathRegexp:
		return LiteralPrefix(p.Value)
	default:
		return p.Value
	}
}

// ValueMatch is a condition on a header or on a parameter of the query.
type ValueMatch struct {
	Name string `json:"name"`
	// Type is exact when it is empty.
	Type  ValueType `json:"type,omitempty"`
	Value string    `json:"value,omitempty"`
}

// ValueType is how a value is compared.
type ValueType string

// The ways to compare a value.
const (
	// ValueExact fits the same value only.
	ValueExact ValueType = "exact"
	// ValueRegexp fits where the RE2 expression finds something in the value.
	ValueRegexp ValueType = "regexp"
	// ValuePresent fits every value, the empty one too.
	ValuePresent ValueType = "present"
)

// Scheme is http or https.
type Scheme string

// The schemes of a request; an empty one in a Match stands for both.
const (
	SchemeHTTP  Scheme = "http"
	SchemeHTTPS Scheme = "https"
)
