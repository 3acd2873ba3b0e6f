package nginx

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/ingress/nginx/snippet"
	"slipway.dev/slipway/internal/route"
)

// words returns an error if a directive has another number of arguments.
func words(directive *snippet.Directive, least, most int) error {
	switch n := len(directive.Words); {
	case n >= least && n <= most:
		return nil
	case least == most:
		return fmt.Errorf("it has %d arguments, and needs %d", n, least)
	default:
		return fmt.Errorf("it has %d arguments, and needs %d to %d", n, least, most)
	}
}

// parseText splits a text at its variables, as nginx does.
func parseText(text string) (route.Text, error) {
	var parts route.Text
	literal := func(s string) {
		if s != "" {
			parts = append(parts, route.TextPart{Text: s})
		}
	}
	for text != "" {
		before, rest, found := strings.Cut(text, "$")
		literal(before)
		if !found {
			return parts, nil
		}
		name := rest
		switch {
		case rest != "" && route.IsGroup(rest[:1]):
			name, text = rest[:1], rest[1:]
		case strings.HasPrefix(rest, "{"):
			inner, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				return nil, fmt.Errorf("%.64q has a ${ without a }", text)
			}
			name, text = inner, after
		default:
			end := strings.IndexFunc(rest, func(c rune) bool {
				return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
			})
			if end < 0 {
				end = len(rest)
			}
			name, text = rest[:end], rest[end:]
		}
		if !variableName(name) {
			return nil, fmt.Errorf("%.64q has a $ without a name", "$"+rest)
		}
		parts = append(parts, route.TextPart{Variable: strings.ToLower(name)})
	}
	return parts, nil
}

func variableName(name string) bool {
	return name != "" && len(name) <= route.MaxDirectiveName && !strings.ContainsFunc(name, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

// namesVariable reports whether a name can be that of a variable which is set or tested.
// One that starts with a digit would be a group with a text behind it in other places.
func namesVariable(name string) bool {
	return variableName(name) && (name[0] < '0' || name[0] > '9')
}

func (t *translator) set(directive *snippet.Directive) error {
	made, err := t.assignment(directive, !t.auth)
	if err == nil {
		t.add(route.DirectiveStep{Set: made})
	}
	return err
}

// assignment reads a variable and its value; args is a variable that can be set only
// with the path of the request.
func (t *translator) assignment(directive *snippet.Directive, args bool) (*route.DirectiveSet, error) {
	if err := words(directive, 2, 2); err != nil {
		return nil, err
	}
	name, found := strings.CutPrefix(directive.Words[0], "$")
	name = strings.ToLower(name)
	switch {
	case !found || !namesVariable(name):
		return nil, fmt.Errorf("%.64q is not the name of a variable", directive.Words[0])
	case (name != "args" || !args) && route.IsRequestVariable(name):
		return nil, fmt.Errorf("$%.64s has a value of nginx, and cannot be set", name)
	}
	value, err := parseText(directive.Words[1])
	return &route.DirectiveSet{Variable: name, Value: value}, err
}

// conditionWords returns the words of a condition without its parentheses.
func conditionWords(list []string) ([]string, error) {
	list = slices.Clone(list)
	if len(list) == 0 || !strings.HasPrefix(list[0], "(") || !strings.HasSuffix(list[len(list)-1], ")") {
		return nil, errors.New("write the condition in parentheses")
	}
	if list[0] = list[0][1:]; list[0] == "" {
		list = list[1:]
	}
	if last := len(list) - 1; last >= 0 {
		if list[last] = strings.TrimSuffix(list[last], ")"); list[last] == "" {
			list = list[:last]
		}
	}
	return list, nil
}

// conditionTexts returns the words of a condition that have variables.
func conditionTexts(list []string) []string {
	list, err := conditionWords(list)
	if err != nil || len(list) == 3 && strings.Contains(list[1], "~") {
		return list[:min(len(list), 1)]
	}
	return list
}

// operators are the comparisons of an if.
var operators = map[string]struct {
	operator route.DirectiveOperator
	flags    string
	regexp   bool
}{
	"=": {operator: route.DirectiveEqual}, "!=": {operator: route.DirectiveNotEqual},
	"~": {route.DirectiveMatches, "", true}, "~*": {route.DirectiveMatches, "(?i)", true},
	"!~": {route.DirectiveMatchesNo, "", true}, "!~*": {route.DirectiveMatchesNo, "(?i)", true},
}

// condition translates an if with its block.
func (t *translator) condition(directive *snippet.Directive) error {
	if !directive.Block {
		return errors.New("it has no block: write { behind the condition")
	}
	list, err := conditionWords(directive.Words)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("there is no condition")
	}
	if strings.HasPrefix(strings.TrimPrefix(list[0], "!"), "-") {
		return fmt.Errorf("%.64q looks at files, which a snippet cannot", list[0])
	}
	name, found := strings.CutPrefix(list[0], "$")
	if name = strings.ToLower(name); !found || !namesVariable(name) || len(list) != 1 && len(list) != 3 {
		return errors.New("a condition is a variable, or a variable, an operator and a value")
	}
	made := &route.DirectiveIf{Variable: name, Operator: route.DirectiveHolds}
	if len(list) == 3 {
		declared, known := operators[list[1]]
		if !known {
			return fmt.Errorf("%.64q is not an operator: use =, !=, ~, ~*, !~ or !~*", list[1])
		}
		made.Operator = declared.operator
		if declared.regexp {
			made.Regexp = declared.flags + list[2]
			err = expressionError(list[2])
		} else {
			made.Value, err = parseText(list[2])
		}
		if err != nil {
			return err
		}
	}
	at := len(t.made.Program.Steps)
	t.add(route.DirectiveStep{If: made})
	t.inside = made
	t.translate(directive.Inner)
	t.inside = nil
	made.Steps = len(t.made.Program.Steps) - at - 1
	return nil
}

func expressionError(text string) error {
	if problem := ExpressionProblem(text); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// redirectURL reports whether a text is a URL that nginx redirects to.
func redirectURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "$scheme")
}

func (t *translator) rewrite(directive *snippet.Directive) error {
	if err := words(directive, 2, 3); err != nil {
		return err
	}
	made := &route.DirectiveRewrite{Regexp: directive.Words[0]}
	if err := expressionError(made.Regexp); err != nil {
		return err
	}
	to := directive.Words[1]
	if redirectURL(to) {
		made.Redirect = 302
	}
	if len(directive.Words) == 3 {
		switch flag := directive.Words[2]; flag {
		case "last":
			made.Then = route.ThenMatch
		case "break":
			made.Then = route.ThenServe
		case "redirect":
			made.Redirect = 302
		case "permanent":
			made.Redirect = 301
		default:
			return fmt.Errorf("%.64q is none of last, break, redirect, permanent", flag)
		}
	}
	to, made.DropQuery = strings.CutSuffix(to, "?")
	path, query, hasQuery := strings.Cut(to, "?")
	made.HasQuery = hasQuery
	var err error
	if made.Path, err = parseText(path); err != nil {
		return err
	}
	if made.Query, err = parseText(query); err != nil {
		return err
	}
	if len(made.Path) == 0 {
		return errors.New("the new path is empty")
	}
	t.add(route.DirectiveStep{Rewrite: made})
	return nil
}

func (t *translator) respond(directive *snippet.Directive) error {
	if err := words(directive, 1, 2); err != nil {
		return err
	}
	made := &route.DirectiveReturn{}
	text := ""
	status, err := strconv.Atoi(directive.Words[0])
	switch {
	case err != nil && len(directive.Words) == 1 && redirectURL(directive.Words[0]):
		made.Status, made.HasText, text = 302, true, directive.Words[0]
	case status == 444:
		return errors.New("444 closes the connection without a response; return 403")
	case err != nil || status < 200 || status > 599:
		return fmt.Errorf("%.64q is not a status from 200 to 599", directive.Words[0])
	default:
		made.Status = status
		if len(directive.Words) == 2 {
			made.HasText, text = true, directive.Words[1]
		}
	}
	if made.Text, err = parseText(text); err != nil {
		return err
	}
	t.add(route.DirectiveStep{Return: made})
	return nil
}

// location translates a location of a server-snippet. Variables of the server are known
// in it, also those that are set behind it.
func (t *translator) location(directive *snippet.Directive) error {
	if err := words(directive, 1, 2); err != nil {
		return err
	}
	if !directive.Block {
		return errors.New("it has no block: write { behind the path")
	}
	made := SnippetLocation{Path: directive.Words[len(directive.Words)-1]}
	if len(directive.Words) == 2 {
		made.Modifier = directive.Words[0]
	}
	switch made.Modifier {
	case "~", "~*":
		if err := expressionError(made.Path); err != nil {
			return err
		}
	case "", "=", "^~":
		if !strings.HasPrefix(made.Path, "/") {
			return fmt.Errorf("%.64q is not a path; put a space behind =, ^~ and ~", made.Path)
		}
	default:
		return fmt.Errorf("%.64q is none of =, ^~, ~, ~*", made.Modifier)
	}
	if len(t.server.Locations) == maxSnippetLocations {
		return fmt.Errorf("there are more than %d locations; use fewer", maxSnippetLocations)
	}
	inner := translator{settings: t.settings, made: &made.Directives, table: t.table, outer: t}
	inner.translate(directive.Inner)
	inner.checkVariables(directive.Inner)
	inner.setAccess()
	t.faults = append(t.faults, inner.faults...)
	t.server.Locations = append(t.server.Locations, made)
	return nil
}

// maxSnippetLocations bounds the locations of a server-snippet.
const maxSnippetLocations = 32

func (t *translator) stop(directive *snippet.Directive) error {
	t.add(route.DirectiveStep{Break: true})
	return words(directive, 0, 0)
}

// onOff reads a directive without an effect.
func (t *translator) onOff(directive *snippet.Directive) error {
	if len(directive.Words) != 1 || directive.Words[0] != "on" && directive.Words[0] != "off" {
		return errors.New("write on or off")
	}
	return nil
}

func (t *translator) number(directive *snippet.Directive) error {
	if err := words(directive, 1, 1); err != nil {
		return err
	}
	_, err := parseCount(directive.Words[0], 1<<31)
	return err
}

func (t *translator) sslVerify(directive *snippet.Directive) error {
	if err := words(directive, 1, 1); err != nil {
		return err
	}
	return readOnOff(func(s *Settings) *bool { return &s.Backend.Verify })(t.settings, directive.Words[0])
}

func (t *translator) sslName(directive *snippet.Directive) error {
	if err := words(directive, 1, 1); err != nil {
		return err
	}
	if strings.Contains(directive.Words[0], "$") {
		return errors.New("give the name without variables")
	}
	return setText(func(s *Settings) *string { return &s.Backend.ServerName })(t.settings, directive.Words[0])
}

func (t *translator) sslProtocols(directive *snippet.Directive) error {
	for _, word := range directive.Words {
		if word != "TLSv1.2" && word != "TLSv1.3" {
			return fmt.Errorf("%.64q is not possible: the edge uses TLSv1.2 and TLSv1.3", word)
		}
	}
	return nil
}

func (t *translator) defaultType(directive *snippet.Directive) error {
	if err := words(directive, 1, 1); err != nil {
		return err
	}
	t.made.Program.ContentType = directive.Words[0]
	return checkText(directive.Words[0])
}

func (t *translator) access(directive *snippet.Directive) error {
	if err := words(directive, 1, 1); err != nil {
		return err
	}
	rule := accessRule{deny: directive.Name == "deny", all: directive.Words[0] == "all"}
	if !rule.all {
		prefix, err := parseRange(directive.Words[0])
		if err != nil {
			return err
		}
		rule.addresses = prefix
	}
	t.rules = append(t.rules, rule)
	return nil
}
