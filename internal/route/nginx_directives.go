package route

import (
	"slices"
	"strings"
)

// Directives are directives of nginx that a rule carries out. They are a part of the
// rule and no policy: a rewritten path is matched again, and what is not written
// depends on the location.
//
// Steps run in order, as nginx's rewrite phase does, and end with a response, with the
// rule, or with a path that is matched again. Headers are evaluated after the steps.
// There are no loops: the work is bounded by the length of the list, and each value by
// [MaxDirectiveValue].
type Directives struct {
	// Behind is the number of policies that come first.
	Behind int `json:"behind,omitempty"`
	// Groups is an expression for the path whose groups the steps start with.
	Groups string `json:"groups,omitempty"`
	// Server are steps of the whole host. They come first, once for a request, and a
	// path that they change is matched again.
	Server []DirectiveStep `json:"server,omitempty"`
	// ServerResponse takes the place of Response if these steps end the request.
	ServerResponse DirectiveResponse `json:"serverResponse,omitzero"`

	Steps []DirectiveStep `json:"steps,omitempty"`
	// Request are headers that the backend gets. An empty value removes the header.
	Request []TextHeader `json:"request,omitempty"`
	// Hide are headers of the backend that the client does not get.
	Hide []string `json:"hide,omitempty"`
	// Response are the headers that the client gets. A condition that holds can
	// replace them.
	Response DirectiveResponse `json:"response,omitzero"`
	// ContentType is the type of texts whose path has no known extension.
	ContentType string `json:"contentType,omitempty"`
	// Auth is about the sub-request of an authRequest among the policies behind.
	Auth *DirectiveAuth `json:"auth,omitempty"`
}

// DirectiveAuth are directives about the sub-request that authenticates a request. It
// shares the variables of the request, as in nginx, and has groups of its own.
type DirectiveAuth struct {
	// Steps run before the sub-request. They are conditions, sets and returns; the
	// status of a return takes the place of the server's.
	Steps []DirectiveStep `json:"steps,omitempty"`
	// Request are further headers of the sub-request. The client's of the same name
	// are left out, and so is a header with an empty value.
	Request []TextHeader `json:"request,omitempty"`
	// Set gives variables values of the response of the server. The steps of the rule
	// come before it, and headers after it.
	Set []DirectiveSet `json:"set,omitempty"`
}

// IsZero reports whether there is nothing to do.
func (d *Directives) IsZero() bool {
	return len(d.Server)+len(d.Steps)+len(d.Request)+len(d.Hide)+len(d.Response.Change)+len(d.Response.Add) == 0 &&
		(d.Auth == nil || len(d.Auth.Steps)+len(d.Auth.Request) == 0)
}

// DirectiveStep is one step. Exactly one of its fields is set.
type DirectiveStep struct {
	If      *DirectiveIf      `json:"if,omitempty"`
	Set     *DirectiveSet     `json:"set,omitempty"`
	Rewrite *DirectiveRewrite `json:"rewrite,omitempty"`
	Return  *DirectiveReturn  `json:"return,omitempty"`
	// Break ends the steps; the path is not matched again.
	Break bool `json:"break,omitempty"`
}

// DirectiveIf is a condition for the steps that follow it.
type DirectiveIf struct {
	// Variable is the name of the variable that is tested.
	Variable string            `json:"variable"`
	Operator DirectiveOperator `json:"operator"`
	// Value is what it is compared with, Regexp the expression that it must match.
	Value  []TextPart `json:"value,omitempty"`
	Regexp string     `json:"regexp,omitempty"`
	// Steps is the number of steps that follow and that are skipped otherwise.
	Steps int `json:"steps,omitempty"`
	// Response are headers of the client if no later condition holds. Added ones
	// replace those of the rule, changed ones come after them.
	Response DirectiveResponse `json:"response,omitzero"`
}

// DirectiveOperator is the comparison of a condition.
type DirectiveOperator string

// The comparisons. A variable holds if it is neither empty nor 0.
const (
	DirectiveHolds     DirectiveOperator = "holds"
	DirectiveEqual     DirectiveOperator = "equal"
	DirectiveNotEqual  DirectiveOperator = "notEqual"
	DirectiveMatches   DirectiveOperator = "matches"
	DirectiveMatchesNo DirectiveOperator = "matchesNot"
)

// DirectiveSet gives a variable a value.
type DirectiveSet struct {
	// Variable is a name of its own, or args.
	Variable string     `json:"variable"`
	Value    []TextPart `json:"value,omitempty"`
}

// DirectiveRewrite replaces a path that an expression matches.
type DirectiveRewrite struct {
	Regexp string `json:"regexp"`
	// Path is the new path, Query what follows a question mark in it.
	Path  []TextPart `json:"path,omitempty"`
	Query []TextPart `json:"query,omitempty"`
	// HasQuery is set if there is a question mark, DropQuery if the query of the
	// request is not appended.
	HasQuery  bool `json:"hasQuery,omitempty"`
	DropQuery bool `json:"dropQuery,omitempty"`
	// Redirect is the status of a redirect to the path, which is a whole URL then;
	// 0 for none.
	Redirect int `json:"redirect,omitempty"`
	// Then is what follows.
	Then DirectiveThen `json:"then,omitempty"`
}

// DirectiveThen is what follows a rewrite.
type DirectiveThen string

// What follows a rewrite. Without one the next steps follow.
const (
	// ThenMatch ends the steps, and the new path is matched again.
	ThenMatch DirectiveThen = "match"
	// ThenServe ends the steps, and the rule serves the new path.
	ThenServe DirectiveThen = "serve"
)

// DirectiveReturn ends the request with a response.
type DirectiveReturn struct {
	Status int `json:"status"`
	// Text is the URL of a redirect, or the body of another response. HasText
	// distinguishes an empty one from none.
	Text    []TextPart `json:"text,omitempty"`
	HasText bool       `json:"hasText,omitempty"`
}

// DirectiveResponse are changes of the headers that the client gets.
type DirectiveResponse struct {
	// Change replaces headers, or removes them if the value is empty. Add comes
	// after it.
	Change []TextHeader `json:"change,omitempty"`
	Add    []TextHeader `json:"add,omitempty"`
}

// TextHeader is a header whose value has variables.
type TextHeader struct {
	Name  string     `json:"name"`
	Value []TextPart `json:"value,omitempty"`
	// Always adds the header to errors, too.
	Always bool `json:"always,omitempty"`
	// Statuses are those of the responses that are changed; none means all.
	Statuses []int `json:"statuses,omitempty"`
}

// Text is a text with variables: its parts, one after the other. It is an alias, so that
// the reference of the table finds the parts.
type Text = []TextPart

// TextPart is a text, or the name of a variable: that of a group is its number.
type TextPart struct {
	Text     string `json:"text,omitempty"`
	Variable string `json:"variable,omitempty"`
}

// RequestVariable declares a variable of nginx that has a value for each request.
type RequestVariable struct {
	// Name is the name, or its start if the rest names a header, cookie or parameter.
	Name   string
	Prefix bool
	Note   string
}

// RequestVariables returns the variables. The list is closed: none reads a file, a
// Secret or anything that is not a part of the request or the rule.
func RequestVariables() []RequestVariable {
	return []RequestVariable{
		{Name: "arg_", Prefix: true, Note: "A parameter of the query, as it is written."},
		{Name: "args", Note: "The query. A `set` changes it."},
		{Name: "best_http_host", Note: "As `$http_host`."},
		{Name: "content_length", Note: "The header Content-Length."},
		{Name: "content_type", Note: "The header Content-Type."},
		{Name: "cookie_", Prefix: true, Note: "A cookie."},
		{Name: "document_uri", Note: "As `$uri`."},
		{Name: "host", Note: "The host, in lower case and without its port."},
		{Name: "http_", Prefix: true, Note: "A header of the request; `_` stands for `-`."},
		{Name: "http_host", Note: "The host with its port, if the client gave one."},
		{Name: "https", Note: "`on` for requests over TLS, otherwise empty."},
		{Name: "ingress_name", Note: "The name of the Ingress."},
		{Name: "is_args", Note: "`?` if there is a query, otherwise empty."},
		{Name: "namespace", Note: "The namespace of the Ingress."},
		{Name: "pass_access_scheme", Note: "As `$scheme`."},
		{Name: "proxy_add_x_forwarded_for", Note: "The header X-Forwarded-For of a trusted proxy, and the address of the client."},
		{Name: "query_string", Note: "As `$args`."},
		{Name: "remote_addr", Note: "The address of the client."},
		{Name: "request_method", Note: "The method."},
		{Name: "request_uri", Note: "The path and the query of the client, as they were before any change."},
		{Name: "scheme", Note: "`http` or `https`."},
		{Name: "server_name", Note: "The host of the rule."},
		{Name: "server_port", Note: "The port of the entry point."},
		{Name: "service_name", Note: "The Service of the path."},
		{Name: "the_real_ip", Note: "As `$remote_addr`."},
		{Name: "uri", Note: "The path, as it is after the directives before."},
	}
}

// IsRequestVariable reports whether a name is that of a variable with a value for each
// request.
func IsRequestVariable(name string) bool {
	return declares(requestVariables, name)
}

// declares reports whether a list has a variable.
func declares(list []RequestVariable, name string) bool {
	return slices.ContainsFunc(list, func(v RequestVariable) bool {
		return name == v.Name && !v.Prefix || v.Prefix && len(name) > len(v.Name) && strings.HasPrefix(name, v.Name)
	})
}

var requestVariables = RequestVariables()

// AuthVariables returns the variables of the response of an authentication server. They
// have a value in the sets of a [DirectiveAuth].
func AuthVariables() []RequestVariable {
	return []RequestVariable{
		{Name: "upstream_cookie_", Prefix: true, Note: "A cookie that the server sets: its value alone."},
		{Name: "upstream_http_", Prefix: true, Note: "A header of the response; `_` stands for `-`. Several lines are joined with commas."},
		{Name: "upstream_status", Note: "The status. It is empty for a cached response, and for one that a snippet returns."},
	}
}

var authVariables = AuthVariables()

// IsAuthVariable reports whether a name is that of a variable of the response of an
// authentication server.
func IsAuthVariable(name string) bool { return declares(authVariables, name) }

// IsGroup reports whether a name is the number of a group.
func IsGroup(name string) bool { return len(name) == 1 && name[0] >= '1' && name[0] <= '9' }
