package nginx

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/nginx/snippet"
	"slipway.dev/slipway/internal/route"
)

// Snippets are the snippets of an Ingress.
type Snippets struct {
	// Allowed is set if Ingresses may have them.
	Allowed bool
	// Location is the configuration-snippet, nil without one.
	Location *Directives
	// Everywhere is the location-snippet of the ConfigMap, nil without one.
	Everywhere *Directives
	// Server is the server-snippet, nil without one.
	Server *ServerDirectives
}

// ServerDirectives are what a server-snippet does for all locations of a host, and
// locations that it adds.
type ServerDirectives struct {
	Directives
	Locations []SnippetLocation
}

// SnippetLocation is a location of a server-snippet. It has no backend: it responds with
// what its directives return, or with 404.
type SnippetLocation struct {
	Directives
	// Modifier is =, ~, ~*, ^~ or empty.
	Modifier, Path string
}

// Directives are what the directives of a snippet do, as far as it does not depend on
// the path.
type Directives struct {
	// Program has the steps and headers.
	Program route.Directives
	// Access is made of allow and deny, nil without them.
	Access *route.IPFilter
	rules  []accessRule
}

// accessRule admits or refuses clients with an address of a range. The first rule that
// fits counts.
type accessRule struct {
	addresses netip.Prefix
	// all stands for all addresses.
	all, deny bool
}

// DirectiveSetting declares a directive of nginx that snippets can have.
type DirectiveSetting struct {
	Name string
	// Within is set if it can stand in an if, Server if it can stand in a
	// server-snippet outside of a location. In an if there, only steps can.
	Within, Server, step bool
	// Auth is set if it can stand in an auth-snippet.
	Auth bool
	// Note is what it does here.
	Note string

	// read translates it.
	read func(*translator, *snippet.Directive) error
}

// SnippetDirectives returns the table of directives.
func SnippetDirectives() []DirectiveSetting { return snippetDirectives() }

// snippetDirectives returns the directives that are carried out. All others are refused.
// It is a function, because if is translated with the table.
func snippetDirectives() []DirectiveSetting {
	return []DirectiveSetting{
		{Name: "set", Within: true, Server: true, step: true, Auth: true, Note: "Variables of the snippet, and `$args`.", read: (*translator).set},
		{Name: "if", Server: true, Auth: true, Note: "`$name`, `=`, `!=`, `~`, `~*`, `!~` and `!~*`; not files (`-f`).", read: (*translator).condition},
		{Name: "rewrite", Within: true, Server: true, step: true, Note: "With `last`, `break`, `redirect` and `permanent`. A path without `break` is matched again with all rules of the host.", read: (*translator).rewrite},
		{Name: "return", Within: true, Server: true, step: true, Auth: true, Note: "Status, text or URL; not 444. In an auth-snippet the status takes the place of that of the server.", read: (*translator).respond},
		{Name: "break", Within: true, Server: true, step: true, Note: "Ends `set`, `if`, `rewrite` and `return`; the path is not matched again.", read: (*translator).stop},
		{Name: "add_header", Within: true, Server: true, Note: "With `always`. In an `if` it replaces those outside, as in nginx.", read: (*translator).addHeader},
		{Name: "more_set_headers", Within: true, Server: true, Note: "With `-s`; not `-t`, `-a` and `-r`.", read: (*translator).moreSet},
		{Name: "more_clear_headers", Within: true, Server: true, Note: "Names without `*`; with `-s`.", read: (*translator).moreClear},
		{Name: "proxy_set_header", Auth: true, Note: "The header replaces the one that the edge would send. `Host` is refused: use upstream-vhost. `Upgrade` and `Connection` have no effect: upgrades pass anyway.", read: (*translator).setHeader},
		{
			Name: "auth_request_set", read: (*translator).authRequestSet,
			Note: "A variable with a value of the response of auth-url; see [variables of authentication](#variables-of-authentication).",
		},
		{Name: "proxy_hide_header", Server: true, Note: "Headers of the backend.", read: (*translator).hideHeader},
		{Name: "allow", Server: true, Note: "Addresses, ranges, `all`. With whitelist-source-range it has no effect, as in ingress-nginx.", read: (*translator).access},
		{Name: "deny", Server: true, Note: "As `allow`.", read: (*translator).access},
		{Name: "default_type", Server: true, Note: "Type of the text of a `return`, if the path has no extension that nginx knows. The default is text/html.", read: (*translator).defaultType},
		{
			Name: "location", Server: true, read: (*translator).location,
			Note: "In a server-snippet, with `=`, `^~`, `~` and `~*`. It has no backend: it responds with a `return`, with 403 after `deny`, or with 404.",
		},
		{Name: "proxy_intercept_errors", Server: true, Note: "No effect: there is no `error_page` but that of custom-http-errors.", read: (*translator).onOff},
		{Name: "proxy_ssl_verify", Note: "As proxy-ssl-verify.", read: (*translator).sslVerify},
		{Name: "proxy_ssl_name", Note: "As proxy-ssl-name, without variables.", read: (*translator).sslName},
		{Name: "proxy_ssl_server_name", Server: true, Note: "No effect: the name is always sent, if there is one.", read: (*translator).onOff},
		{Name: "proxy_ssl_protocols", Note: "`TLSv1.2` and `TLSv1.3`.", read: (*translator).sslProtocols},
		{Name: "proxy_ssl_session_reuse", Server: true, Note: "No effect.", read: (*translator).onOff},
		{Name: "proxy_ssl_verify_depth", Server: true, Note: "No effect: a CA certificate limits its chains.", read: (*translator).number},
	}
}

// refusedDirectives have advice of their own.
var refusedDirectives = map[string]string{
	"auth_request":                  "use auth-url",
	"proxy_pass":                    "requests go to the Service of the path; add a path with the Service",
	"error_page":                    "use custom-http-errors with default-backend",
	"include":                       "a snippet cannot read files",
	"root":                          "a snippet cannot read files",
	"alias":                         "a snippet cannot read files",
	"try_files":                     "a snippet cannot read files",
	"proxy_ssl_certificate":         "a snippet cannot read files; use proxy-ssl-secret",
	"proxy_ssl_certificate_key":     "a snippet cannot read files; use proxy-ssl-secret",
	"proxy_ssl_trusted_certificate": "a snippet cannot read files; use proxy-ssl-secret",
	"proxy_ssl_crl":                 "a snippet cannot read files",
	"proxy_ssl_ciphers":             "the edge uses the secure cipher suites; remove it",
}

// otherDirectives is the advice for all others.
const otherDirectives = "use annotations and Middlewares of slipway.dev for what it does, or remove it"

// translator collects what directives do.
type translator struct {
	table    map[string]*DirectiveSetting
	settings *Settings
	made     *Directives
	// server has the locations of a server-snippet, nil in others.
	server *ServerDirectives
	// inside is the condition whose block is read, nil outside.
	inside *route.DirectiveIf
	rules  []accessRule
	// auth is set for an auth-snippet.
	auth bool
	// outer is the translator of the server that a location is in, nil outside.
	outer  *translator
	faults []string
}

// maxSnippetFaults bounds the faults of one snippet that are listed.
const maxSnippetFaults = 5

// translateSnippet translates the text of a snippet for a location. The error lists
// the directives that are not carried out, by line.
func translateSnippet(text string, settings *Settings) (*Directives, error) {
	t := translator{settings: settings, made: &Directives{}, table: directivesByName()}
	return t.made, t.finish(text)
}

// translateServer translates the text of a server-snippet.
func translateServer(text string, settings *Settings) (*ServerDirectives, error) {
	made := &ServerDirectives{}
	t := translator{settings: settings, made: &made.Directives, server: made, table: directivesByName()}
	if err := t.finish(text); err != nil {
		return nil, err
	}
	// The steps of the host come before those of a rule.
	made.Program.Server, made.Program.Steps = made.Program.Steps, nil
	if problem := made.problem(); problem != "" {
		return nil, fmt.Errorf("the routing table cannot hold it: %s", problem)
	}
	return made, nil
}

// translateAuth translates the text of an auth-snippet.
func translateAuth(text string, settings *Settings) (*route.DirectiveAuth, error) {
	t := translator{settings: settings, made: &Directives{}, auth: true, table: directivesByName()}
	if err := t.finish(text); err != nil {
		return nil, err
	}
	return &route.DirectiveAuth{Steps: t.made.Program.Steps, Request: t.made.Program.Request}, nil
}

func directivesByName() map[string]*DirectiveSetting {
	table := map[string]*DirectiveSetting{}
	for _, declared := range snippetDirectives() {
		table[declared.Name] = &declared
	}
	return table
}

// finish parses and translates the text.
func (t *translator) finish(text string) error {
	parsed, err := snippet.Parse(text)
	if err != nil {
		return err
	}
	t.translate(parsed)
	t.checkVariables(parsed)
	t.setAccess()
	if len(t.faults) > 0 {
		return errors.New(strings.Join(t.faults, "; "))
	}
	return nil
}

// setAccess makes a filter of allow and deny.
func (t *translator) setAccess() {
	t.made.rules, t.made.Access = t.rules, accessFilter(t.rules)
	if err := t.made.accessError(); err != nil {
		t.fault(1, "%v", err)
	}
}

// fault records why a directive is refused.
func (t *translator) fault(line int, format string, args ...any) {
	if len(t.faults) < maxSnippetFaults {
		t.faults = append(t.faults, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
	}
}

// translate translates a list of directives.
func (t *translator) translate(list []snippet.Directive) {
	for i := range list {
		directive := &list[i]
		declared := t.table[directive.Name]
		switch {
		case declared == nil:
			t.fault(directive.Line, "%.64q is not carried out; %s", directive.Name, cmp.Or(refusedDirectives[directive.Name], otherDirectives))
		case t.auth && !declared.Auth:
			t.fault(directive.Line, "%q is not carried out in an auth-snippet; use set, if, return and proxy_set_header, or remove it", directive.Name)
		case t.inside != nil && (!declared.Within || t.server != nil && !declared.step):
			t.fault(directive.Line, "%q cannot stand in an if; nginx refuses it, too", directive.Name)
		case t.server != nil && !declared.Server:
			t.fault(directive.Line, "%q has no effect in a server-snippet, because each location has its own; use configuration-snippet", directive.Name)
		case t.server == nil && directive.Name == "location":
			t.fault(directive.Line, "\"location\" is not carried out within another; add a path to the Ingress, or use server-snippet")
		case directive.Block && directive.Name != "if" && directive.Name != "location":
			t.fault(directive.Line, "%q has no block; end it with a ;", directive.Name)
		default:
			if err := declared.read(t, directive); err != nil {
				t.fault(directive.Line, "%s: %v", directive.Name, err)
			}
		}
	}
}

// add adds a step.
func (t *translator) add(step route.DirectiveStep) {
	t.made.Program.Steps = append(t.made.Program.Steps, step)
}

// response returns the headers of the block that is read.
func (t *translator) response() *route.DirectiveResponse {
	if t.inside != nil {
		return &t.inside.Response
	}
	return &t.made.Program.Response
}

// checkVariables refuses texts with variables that have no value here. It runs after
// all directives: a variable can be set behind its use.
func (t *translator) checkVariables(parsed []snippet.Directive) {
	if len(t.faults) > 0 {
		return
	}
	own := t.made.Program.OwnVariables()
	if t.outer != nil {
		maps.Copy(own, t.outer.made.Program.OwnVariables())
	}
	var visit func([]snippet.Directive)
	visit = func(list []snippet.Directive) {
		for i := range list {
			for _, name := range t.variablesOf(&list[i]) {
				if name == authCookie && t.located() {
					t.declareCookie()
					continue
				}
				if problem := t.variableProblem(list[i].Name, name, own); problem != "" {
					t.fault(list[i].Line, "%s", problem)
				}
			}
			if list[i].Name != "location" { // it is visited with its own variables
				visit(list[i].Inner)
			}
		}
	}
	visit(parsed)
}

// variablesOf returns the names of the variables that a directive uses. Expressions
// have none: a $ is an anchor there.
func (t *translator) variablesOf(directive *snippet.Directive) []string {
	words := directive.Words
	switch directive.Name {
	case "rewrite":
		words = words[1:]
	case "if":
		words = conditionTexts(words)
	case "location":
		return nil
	}
	var names []string
	for _, word := range words {
		text, err := parseText(word)
		if err != nil {
			continue
		}
		for _, part := range text {
			if part.Variable != "" {
				names = append(names, part.Variable)
			}
		}
	}
	return names
}

// program returns the directives of the snippets for the paths of the Ingress, with
// those for the sub-request of its authentication.
func (s *Settings) program() route.Directives {
	var made route.Directives
	if located := s.Snippets.located(); located != nil {
		made = located.Program
	}
	if auth, _, _ := s.Auth.Effective(); auth != nil && auth.Snippet != nil {
		own := *auth.Snippet
		if made.Auth != nil {
			own.Set = made.Auth.Set
		}
		made.Auth = &own
	}
	return made
}

// Located returns the directives of a path, nil without any; an empty path is that of
// the default backend. The rewrite target comes behind those of the snippet, as
// ingress-nginx writes it.
func (s *Settings) Located(path string, behind int) *route.Directives {
	program := s.program()
	if program.IsZero() {
		return nil
	}
	made := program // a copy, so that most paths allocate nothing
	made.Behind = behind
	if path != "" && s.NeedsRewrite(path) && ExpressionProblem(path) == "" {
		target, _ := parseText(s.RewriteTarget) // checked when it was read
		made.Steps = append(slices.Clip(made.Steps), route.DirectiveStep{Rewrite: &route.DirectiveRewrite{
			Regexp: "(?i)" + path, Path: target, Then: route.ThenServe,
		}})
	}
	return &made
}
