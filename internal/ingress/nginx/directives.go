package nginx

import (
	"cmp"
	"fmt"
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
}

// Directives are what the directives of a snippet do, as far as it does not depend on
// the path.
type Directives struct {
	// Program has the steps and headers.
	Program route.Directives
	// Access is made of allow and deny, nil without them.
	Access *route.IPFilter
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
	// Within is set if it can stand in an if.
	Within bool
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
		{Name: "set", Within: true, Note: "Variables of the snippet, and `$args`.", read: (*translator).set},
		{Name: "if", Note: "`$name`, `=`, `!=`, `~`, `~*`, `!~` and `!~*`; not files (`-f`).", read: (*translator).condition},
		{Name: "rewrite", Within: true, Note: "With `last`, `break`, `redirect` and `permanent`. A path without `break` is matched again with all rules of the host.", read: (*translator).rewrite},
		{Name: "return", Within: true, Note: "Status, text or URL; not 444.", read: (*translator).respond},
		{Name: "break", Within: true, Note: "Ends `set`, `if`, `rewrite` and `return`; the path is not matched again.", read: (*translator).stop},
		{Name: "add_header", Within: true, Note: "With `always`. In an `if` it replaces those outside, as in nginx.", read: (*translator).addHeader},
		{Name: "more_set_headers", Within: true, Note: "With `-s`; not `-t`, `-a` and `-r`.", read: (*translator).moreSet},
		{Name: "more_clear_headers", Within: true, Note: "Names without `*`; with `-s`.", read: (*translator).moreClear},
		{Name: "proxy_set_header", Note: "The header replaces the one that the edge would send. `Host` is refused: use upstream-vhost. `Upgrade` and `Connection` have no effect: upgrades pass anyway.", read: (*translator).setHeader},
		{Name: "proxy_hide_header", Note: "Headers of the backend.", read: (*translator).hideHeader},
		{Name: "allow", Note: "Addresses, ranges, `all`. With whitelist-source-range it has no effect, as in ingress-nginx.", read: (*translator).access},
		{Name: "deny", Note: "As `allow`.", read: (*translator).access},
		{Name: "default_type", Note: "Type of the text of a `return`, if the path has no extension that nginx knows. The default is text/html.", read: (*translator).defaultType},
		{Name: "proxy_intercept_errors", Note: "No effect: there is no `error_page` but that of custom-http-errors.", read: (*translator).onOff},
		{Name: "proxy_ssl_verify", Note: "As proxy-ssl-verify.", read: (*translator).sslVerify},
		{Name: "proxy_ssl_name", Note: "As proxy-ssl-name, without variables.", read: (*translator).sslName},
		{Name: "proxy_ssl_server_name", Note: "No effect: the name is always sent, if there is one.", read: (*translator).onOff},
		{Name: "proxy_ssl_protocols", Note: "`TLSv1.2` and `TLSv1.3`.", read: (*translator).sslProtocols},
		{Name: "proxy_ssl_session_reuse", Note: "No effect.", read: (*translator).onOff},
		{Name: "proxy_ssl_verify_depth", Note: "No effect: a CA certificate limits its chains.", read: (*translator).number},
	}
}

// refusedDirectives have advice of their own.
var refusedDirectives = map[string]string{
	"auth_request_set":              "it needs auth-url; use slipway.dev/forward-auth with responseHeaders",
	"location":                      "a location cannot stand in another one here; add a path to the Ingress",
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
	// inside is the condition whose block is read, nil outside.
	inside *route.DirectiveIf
	rules  []accessRule
	faults []string
}

// maxSnippetFaults bounds the faults of one snippet that are listed.
const maxSnippetFaults = 5

// translateSnippet translates the text of a snippet into a location. The error lists
// the directives that are not carried out, by line.
func translateSnippet(text string, settings *Settings) (*Directives, error) {
	parsed, err := snippet.Parse(text)
	if err != nil {
		return nil, err
	}
	t := translator{settings: settings, made: &Directives{}, table: map[string]*DirectiveSetting{}}
	for _, declared := range snippetDirectives() {
		t.table[declared.Name] = &declared
	}
	t.translate(parsed)
	t.checkVariables(parsed)
	if t.made.Access = accessFilter(t.rules); t.made.Access != nil && len(t.made.Access.Deny) > maxAccessRanges {
		t.fault(1, "allow and deny give more than %d ranges; use fewer", maxAccessRanges)
	}
	if len(t.faults) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(t.faults, "; "))
	}
	return t.made, nil
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
		case t.inside != nil && !declared.Within:
			t.fault(directive.Line, "%q cannot stand in an if; nginx refuses it, too", directive.Name)
		case directive.Block && directive.Name != "if":
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
	var visit func([]snippet.Directive)
	visit = func(list []snippet.Directive) {
		for i := range list {
			for _, name := range t.variablesOf(&list[i]) {
				if !own[name] && !route.IsGroup(name) && !route.IsRequestVariable(name) {
					t.fault(list[i].Line, "the variable $%.64s has no value here; use one of the list, or set it", name)
				}
			}
			visit(list[i].Inner)
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

// Located returns the directives of a path, nil without any; an empty path is that of
// the default backend. The rewrite target comes behind those of the snippet, as
// ingress-nginx writes it.
func (s *Settings) Located(path string, behind int) *route.Directives {
	if s.Snippets.Location == nil || s.Snippets.Location.Program.IsZero() {
		return nil
	}
	made := s.Snippets.Location.Program
	made.Behind = behind
	if path != "" && s.NeedsRewrite(path) && ExpressionProblem(path) == "" {
		target, _ := parseText(s.RewriteTarget) // checked when it was read
		made.Steps = append(slices.Clip(made.Steps), route.DirectiveStep{Rewrite: &route.DirectiveRewrite{
			Regexp: "(?i)" + path, Path: target, Then: route.ThenServe,
		}})
	}
	return &made
}
