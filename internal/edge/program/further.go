package program

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/route"
)

// furtherConditions are the further conditions of a rule.
type furtherConditions struct{ list []furtherCondition }

// furtherCondition is a route.Condition in the form in which it is compared with
// requests.
type furtherCondition struct {
	source *route.Condition
	// expression is that of a host or a path.
	expression *regexp.Regexp
	// value is that of a header or a parameter.
	value condition
}

// mismatch returns the first condition that a request does not meet.
func (f *furtherConditions) mismatch(req *Request) mismatch {
	for i := range f.list {
		if c := &f.list[i]; c.fits(req) == c.source.Not {
			return mismatch{partFurther, i}
		}
	}
	return mismatch{}
}

// fits reports whether a request has what the condition is about, whatever Not is.
func (c *furtherCondition) fits(req *Request) bool {
	switch of := c.source; {
	case of.Host != "":
		return hostFits(of.Host, req.Host)
	case of.HostRegexp != "":
		return c.expression.MatchString(req.Host)
	case of.Path != nil:
		return c.pathFits(req.Path)
	case of.Method != "":
		return req.Method == of.Method
	case of.Header != nil:
		return headerFits(&c.value, req.Header)
	case of.Query != nil:
		return queryFits(&c.value, req.Query)
	default:
		return slices.ContainsFunc(of.Clients, func(network netip.Prefix) bool { return network.Contains(req.Client) })
	}
}

// hostFits reports whether a host is the one of a condition, or has one label more than
// its wildcard.
func hostFits(pattern, host string) bool {
	wanted, wildcard := route.WildcardParent(pattern)
	if !wildcard {
		return host == pattern
	}
	parent, ok := parentOf(host)
	return ok && parent == wanted
}

// pathFits reports whether a path is one of the condition.
func (c *furtherCondition) pathFits(path string) bool {
	if c.expression != nil {
		return c.expression.MatchString(path)
	}
	literal := c.source.Path.Literal()
	if !strings.HasPrefix(path, literal) {
		return false
	}
	switch c.source.Path.Type {
	case route.PathExact:
		return len(path) == len(literal)
	case route.PathPrefix:
		return len(path) == len(literal) || literal == "/" || path[len(literal)] == '/'
	default:
		return true
	}
}

// furtherConditions compiles further conditions, nil for none.
func (e *edit) furtherConditions(given []route.Condition) (*furtherConditions, error) {
	if len(given) == 0 {
		return nil, nil
	}
	further := &furtherConditions{list: make([]furtherCondition, len(given))}
	for i := range given {
		compiled := &further.list[i]
		compiled.source = &given[i]
		var err error
		switch of := compiled.source; {
		case of.HostRegexp != "":
			compiled.expression, err = e.expression(of.HostRegexp)
		case of.Path != nil && of.Path.Type == route.PathRegexp:
			compiled.expression, err = e.expression(of.Path.Value)
		case of.Header != nil:
			compiled.value, err = e.valueCondition(of.Header)
			compiled.value.name = textproto.CanonicalMIMEHeaderKey(compiled.value.name)
		case of.Query != nil:
			compiled.value, err = e.valueCondition(of.Query)
		}
		if err != nil {
			return nil, err
		}
	}
	return further, nil
}

// furtherText explains a further condition that is not met.
func furtherText(c *route.Condition) string {
	what := ""
	switch {
	case c.Host != "":
		what = "the host is " + c.Host
	case c.HostRegexp != "":
		what = fmt.Sprintf("the host fits the expression %q", c.HostRegexp)
	case c.Path != nil:
		what = fmt.Sprintf("the path fits %s %q", c.Path.Type, c.Path.Value)
	case c.Method != "":
		what = "the method is " + c.Method
	case c.Header != nil:
		what = "the header " + valueText(c.Header)
	case c.Query != nil:
		what = "the query parameter " + valueText(c.Query)
	default:
		what = fmt.Sprintf("the client is in %v", c.Clients)
	}
	if c.Not {
		return "it is not for requests of which " + what
	}
	return "it is for requests only of which " + what
}

// valueText describes a condition on a value.
func valueText(match *route.ValueMatch) string {
	switch match.Type {
	case route.ValuePresent:
		return match.Name + " is there"
	case route.ValueRegexp:
		return fmt.Sprintf("%s fits the expression %q", match.Name, match.Value)
	default:
		return fmt.Sprintf("%s is %q", match.Name, match.Value)
	}
}
