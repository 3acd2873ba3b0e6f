package nginx

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/nginx/snippet"
	"slipway.dev/slipway/internal/route"
)

// authCookie is a variable that ingress-nginx sets for each location with
// authentication: the cookies of the server.
const authCookie = "auth_cookie"

// authRequestSet translates auth_request_set. Without authentication the variable has no
// value, as in nginx.
func (t *translator) authRequestSet(directive *snippet.Directive) error {
	if t.outer != nil {
		return errors.New("a location of a server-snippet has no authentication; use configuration-snippet")
	}
	made, err := t.assignment(directive, false)
	if err != nil {
		return err
	}
	auth := t.authPart()
	auth.Set = append(auth.Set, *made)
	return nil
}

// authPart returns the part of the program that is about authentication.
func (t *translator) authPart() *route.DirectiveAuth {
	if t.made.Program.Auth == nil {
		t.made.Program.Auth = &route.DirectiveAuth{}
	}
	return t.made.Program.Auth
}

// located reports whether a configuration-snippet is translated.
func (t *translator) located() bool { return t.server == nil && t.outer == nil && !t.auth }

// declareCookie sets the cookies of the server, once, before the variables of the
// snippet.
func (t *translator) declareCookie() {
	cookies := route.DirectiveSet{Variable: authCookie, Value: route.Text{{Variable: "upstream_http_set_cookie"}}}
	auth := t.authPart()
	if len(auth.Set) == 0 || auth.Set[0].Variable != authCookie {
		auth.Set = slices.Insert(auth.Set, 0, cookies)
	}
}

// variableProblem returns why a directive cannot have a variable; own are those that the
// snippet sets. The sub-request of nginx has a path, a query and groups of its own.
func (t *translator) variableProblem(directive, name string, own map[string]bool) string {
	sets := directive == "auth_request_set"
	switch {
	case own[name], sets && route.IsAuthVariable(name):
		return ""
	case sets && route.IsGroup(name), (t.auth || sets) && ofPath(name):
		return fmt.Sprintf("$%.64s is that of the sub-request in nginx; use $request_uri, or a variable that is set to it in configuration-snippet", name)
	case route.IsGroup(name), route.IsRequestVariable(name):
		return ""
	}
	return fmt.Sprintf("the variable $%.64s has no value here; use one of the list, or set it", name)
}

// ofPath reports whether a variable is made of the path or the query of a request.
func ofPath(name string) bool {
	switch name {
	case "uri", "document_uri", "args", "query_string", "is_args":
		return true
	}
	return strings.HasPrefix(name, "arg_")
}

// readAuthSnippet returns the reader of a snippet for the sub-request. That of the
// ConfigMap is the operator's, and needs no permission.
func readAuthSnippet(slot func(*Settings) *ExternalAuth, operator bool) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		switch {
		case text == "":
			return nil
		case !operator && !s.Snippets.Allowed:
			return errSnippets
		}
		made, err := translateAuth(text, s)
		if err == nil {
			slot(s).Snippet = made
		}
		return err
	}
}

// authSnippetExamples are in the manner of those that people have.
var authSnippetExamples = []string{
	"proxy_set_header Foo-Header 42;\n",
	"if ($request_method = POST) {\n  return 200;\n}\nproxy_set_header X-One $http_x_one;\n",
	"set $to none;\nif ($request_uri ~ ^/app/(.*)) {\n  set $to $1;\n}\nproxy_set_header X-Two \"$to $host\";\n",
}
