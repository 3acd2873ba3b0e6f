package rights

import (
	"encoding/csv"
	"slices"
	"strings"
)

// Excerpt is the part of a policy that decides about one user. It is small
// enough for the token of a request, with which the platform sends it to a
// runtime.
type Excerpt struct {
	// Text has the p and g lines.
	Text    string `json:"text,omitempty"`
	Mode    Mode   `json:"mode,omitempty"`
	Default string `json:"default,omitempty"`
}

// Excerpt returns the rules of a user, and of all roles that the user and the
// default role have. Resource, action and object of the request do not count.
// The excerpt of a policy without such rules is the zero value. The policy must
// not have roles of AppProjects: they would count everywhere.
func (p *Policy) Excerpt(user Request) Excerpt {
	if p == nil {
		return Excerpt{}
	}
	excerpt := Excerpt{Default: p.defaultRole}
	var text strings.Builder
	lines := csv.NewWriter(&text)
	for _, h := range p.holders("", append(user.names(), p.defaultRole)...) {
		for _, r := range p.rules[h.name] {
			_ = lines.Write(r.fields) // a builder does not fail
		}
		for _, b := range p.bindings[h.name] {
			_ = lines.Write([]string{"g", h.name, b.role})
		}
	}
	lines.Flush()
	if excerpt.Text = text.String(); excerpt.Text != "" {
		excerpt.Mode = p.mode
	}
	return excerpt
}

// Policy returns the policy that an excerpt was made of, as far as its user is
// concerned. Origin is its name in decisions.
func (e Excerpt) Policy(origin string) *Policy {
	policy, _ := ParseMode(e.Text, origin, e.Mode) // the lines were parsed before
	return policy.WithDefault(e.Default)
}

// anyAction is the action of a request for all actions of all kinds.
const anyAction = "action/*"

// May reports whether a rule could allow the action of a request on some object.
// It is for decisions before the object is known; denies do not count.
func (p *Policy) May(request Request) bool {
	if p == nil {
		p = &Policy{}
	}
	allows := func(r rule) bool {
		// All actions are requested before the action is known too.
		takes := r.takesAction(request) || request.Action == anyAction && strings.HasPrefix(r.fields[3], "action/")
		return !r.deny && r.resource.match(request.Resource) && takes
	}
	for _, h := range p.holders(anyProject, append(request.names(), p.defaultRole)...) {
		if slices.ContainsFunc(p.rules[h.name], allows) || slices.ContainsFunc(builtin.rules[h.name], allows) {
			return true
		}
	}
	return false
}

// Names reports whether a rule or a binding is about a user, group or role of
// this name.
func (p *Policy) Names(name string) bool {
	return p != nil && (len(p.rules[name]) > 0 || len(p.bindings[name]) > 0)
}
