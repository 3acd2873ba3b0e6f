package values

import (
	"regexp"
	"strings"
)

// Kind is the type of a value.
type Kind int

// The kinds.
const (
	// Text, Flag and Count are single values. The lists and maps of texts apply
	// the rule to each element.
	Text Kind = iota
	Flag
	Count
	TextList
	TextMap
	// Object and ObjectList have the form that Kubernetes gives them, such as
	// resources and tolerations.
	Object
	ObjectList
)

// String formats the kind for the reference page.
func (k Kind) String() string {
	switch k {
	case Flag:
		return "true or false"
	case Count:
		return "number"
	case TextList:
		return "list of texts"
	case TextMap:
		return "map of texts"
	case Object:
		return "object"
	case ObjectList:
		return "list of objects"
	case Text:
	}
	return "text"
}

// Rule narrows what a value may be. Lists and maps have it for each element. An
// empty text keeps every rule but Needed: it is a value that is not given.
type Rule struct {
	// Pattern is a regular expression for the whole text that ECMA 262 and Go
	// read alike. Means describes it in words.
	Pattern, Means string
	// OneOf are the allowed texts.
	OneOf []string
	// Least and Most bound a Count, when Most is above 0.
	Least, Most int
	// Needed refuses the empty text.
	Needed bool
}

// Value is one value of a chart.
type Value struct {
	// Key has dots between its names.
	Key  string
	Kind Kind
	// Default is nil for a value without a default: the chart then
	// distinguishes unset from false and empty.
	Default any
	// About describes it in whole sentences.
	About string
	Rule  Rule
	// Alias is another key that is read as this one.
	Alias string
	// Secret values are never shown.
	Secret bool
	// Ignored values are those of other charts: they are accepted, and do
	// nothing.
	Ignored bool
	// Definitions is set for the group of a project whose crds.install is
	// honoured.
	Definitions bool
}

// Catalogue is every value of a chart.
type Catalogue struct {
	// Chart is its name, and About what it installs.
	Chart, About string
	Values       []Value
	// Open are groups in which other charts may have keys of their own.
	Open []string
}

// Find returns the value with a key or an alias.
func (c Catalogue) Find(key string) (Value, bool) {
	for _, value := range c.Values {
		if value.Key == key || value.Alias != "" && value.Alias == key {
			return value, true
		}
	}
	return Value{}, false
}

// dnsName is the rule for names of Kubernetes objects.
func dnsName() Rule {
	return Rule{Pattern: `^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`, Means: "a name of Kubernetes: lower-case letters, digits, dashes and dots"}
}

// webAddress is the rule for the base URL of a server.
func webAddress() Rule {
	return Rule{Pattern: `^https?://[^/\s?#@]+/?$`, Means: "a URL such as https://slipway.example.com, without a path, a user and a query"}
}

// protocol is the rule for the scheme of an address.
func protocol() Rule { return Rule{OneOf: []string{"http", "https"}} }

// quantity is the rule for quantities of Kubernetes, such as sizes of volumes.
func quantity() Rule {
	return Rule{Pattern: `^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`, Means: "a quantity of Kubernetes such as 8Gi"}
}

// between is the rule for a Count from least to most, both included.
func between(least, most int) Rule { return Rule{Least: least, Most: most} }

// matches reports whether a text matches the pattern. The patterns are
// constants, so compiling one cannot fail.
func (r Rule) matches(text string) bool {
	return r.Pattern == "" || text == "" && !r.Needed || regexp.MustCompile(r.Pattern).MatchString(text)
}

// words describes the rule for people, and is empty if there is none.
func (r Rule) words() string {
	if len(r.OneOf) > 0 {
		return "one of " + strings.Join(r.OneOf, ", ")
	}
	return r.Means
}
