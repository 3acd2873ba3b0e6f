package filter

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// Rerouted is the result of a filter that has changed the path so that the request
// must be matched again. The proxy finds the rule of the new path, and calls
// [Exchange.Restart] before its filters.
var Rerouted = &LocalResponse{Status: 500, Reason: "Rerouted"}

// The local responses to a request that directives cannot serve. They are shared and
// never change.
var (
	rewriteLoop  = &LocalResponse{Status: 500, Reason: "RewriteLoop"}
	valueTooLong = &LocalResponse{Status: 500, Reason: "DirectiveValueTooLong"}
	badHeader    = &LocalResponse{Status: 500, Reason: "BadDirectiveHeader"}
)

// maxRestarts is how often a request is matched again, as in nginx.
const maxRestarts = 10

// directives carry out directives of nginx. They are compiled once: variables become
// numbers of slots, and names of headers become edits.
type directives struct {
	// server are the steps of the host, steps those of the rule.
	server, steps []directiveStep

	groups   *regexp.Regexp
	request  []textHeader
	hide     []h1.Edit
	response directiveResponse
	// serverResponse is for requests that the steps of the server end.
	serverResponse directiveResponse
	location       h1.Edit
	// names are the variables that steps set, by slot, and namespace is that of the
	// rule. A rule of the namespace that the path leads to keeps their values.
	names       []string
	namespace   string
	contentType string
	// auth is nil without directives about authentication.
	auth *directiveAuth
}

// directiveStep is one step. The fields that are used depend on the kind.
type directiveStep struct {
	kind stepKind
	// variable is tested by a condition, slot is set by a set.
	variable textPart
	slot     int
	operator route.DirectiveOperator
	match    *directiveExpression
	// skip is how many steps a condition that does not hold skips.
	skip     int
	response *directiveResponse
	text     []textPart
	query    []textPart
	rewrite  *route.DirectiveRewrite
	status   int
	hasText  bool
}

type stepKind uint8

const (
	stepIf stepKind = iota
	stepSet
	stepRewrite
	stepReturn
	stepBreak
)

// directiveExpression is an expression whose named groups are variables.
type directiveExpression struct {
	expression *regexp.Regexp
	// slots has, for each group, the slot of its variable, -1 for none.
	slots []int
}

// directiveResponse are changes of the headers of a response.
type directiveResponse struct{ change, add []textHeader }

// textHeader is a header with a text as its value.
type textHeader struct {
	name        string
	set, remove h1.Edit
	add         h1.Edit
	value       []textPart
	always      bool
	statuses    []int
}

// argsSlot is the slot of the query, which a set changes.
const argsSlot = -1

// CompileRule compiles the policies of a rule, as [Deps.Compile] does, with its
// directives among them. A policy can be a chain of several filters, so the policies
// before and behind the directives are compiled on their own.
func (d Deps) CompileRule(rule *route.Rule) (Chain, error) {
	if rule.Directives == nil {
		return d.Compile(rule.Policies)
	}
	behind := min(max(rule.Directives.Behind, 0), len(rule.Policies))
	if d.Counters == nil {
		return Chain{}, invalid("policies", "the edge was built without counters")
	}
	if err := validate(rule.Policies, rule.Directives); err != nil {
		return Chain{}, err
	}
	c := newCompiler(d)
	if err := c.addAll("policies", rule.Policies[:behind]); err != nil {
		return Chain{}, err
	}
	made, err := newDirectives(rule, c)
	if err != nil {
		return Chain{}, placed("directives", err)
	}
	c.chain.filters, c.directives = append(c.chain.filters, made), made
	if err := c.addAll("policies", rule.Policies[behind:]); err != nil {
		return Chain{}, err
	}
	return c.chain, nil
}

// newDirectives compiles the directives of a rule.
func newDirectives(rule *route.Rule, c *compiler) (*directives, error) {
	d := rule.Directives
	b := directiveBuilder{rule: rule, slots: map[string]int{}}
	made := &directives{contentType: d.ContentType}
	b.declare(d)
	var err error
	if made.location, err = h1.SetField("Location", ""); err != nil {
		return nil, err
	}
	if d.Groups != "" {
		if made.groups, err = regexp.Compile(d.Groups); err != nil {
			return nil, invalid("groups", "%v", err)
		}
	}
	if made.server, err = b.steps("server", d.Server); err != nil {
		return nil, err
	}
	if made.steps, err = b.steps("steps", d.Steps); err != nil {
		return nil, err
	}
	if made.request, err = b.headers("request", d.Request); err != nil {
		return nil, err
	}
	for i := range d.Request {
		c.guard(d.Request[i].Name)
	}
	for i, name := range d.Hide {
		edit, err := h1.RemoveField(name)
		if err != nil {
			return nil, invalid(fmt.Sprintf("hide[%d]", i), "%v", err)
		}
		made.hide = append(made.hide, edit)
	}
	response, err := b.response(&d.Response)
	if err != nil {
		return nil, err
	}
	of, err := b.response(&d.ServerResponse)
	if err != nil {
		return nil, err
	}
	made.serverResponse = *of
	if made.auth, err = b.auth(d, c); err != nil {
		return nil, err
	}
	made.response, made.names, made.namespace = *response, b.names, rule.ID.Namespace
	return made, nil
}

// directiveBuilder compiles the parts of directives.
type directiveBuilder struct {
	rule  *route.Rule
	slots map[string]int
	names []string
	// kept collects headers of the response of an authentication server; nil where
	// texts do not see it.
	kept *[]string
}

// declare gives a slot to each variable, before any text uses one.
func (b *directiveBuilder) declare(d *route.Directives) {
	slot := func(name string) {
		if _, known := b.slots[name]; !known && name != "" && name != "args" {
			b.slots[name] = len(b.slots)
			b.names = append(b.names, name)
		}
	}
	named := func(expression string) {
		if compiled, err := regexp.Compile(expression); err == nil {
			for _, name := range compiled.SubexpNames() {
				slot(strings.ToLower(name))
			}
		}
	}
	lists := [][]route.DirectiveStep{d.Server, d.Steps}
	if d.Auth != nil {
		lists = append(lists, d.Auth.Steps)
		for i := range d.Auth.Set {
			slot(d.Auth.Set[i].Variable)
		}
	}
	for _, list := range lists {
		for i := range list {
			switch step := &list[i]; {
			case step.Set != nil:
				slot(step.Set.Variable)
			case step.If != nil:
				named(step.If.Regexp)
			case step.Rewrite != nil:
				named(step.Rewrite.Regexp)
			}
		}
	}
}

func (b *directiveBuilder) steps(field string, list []route.DirectiveStep) (made []directiveStep, err error) {
	for i := range list {
		step, err := b.step(&list[i])
		if err != nil {
			return nil, placed(fmt.Sprintf("%s[%d]", field, i), err)
		}
		made = append(made, step)
	}
	return made, nil
}

func (b *directiveBuilder) step(step *route.DirectiveStep) (made directiveStep, err error) {
	switch {
	case step.If != nil:
		return b.condition(step.If)
	case step.Set != nil:
		made.kind, made.slot = stepSet, argsSlot
		if step.Set.Variable != "args" {
			made.slot = b.slots[step.Set.Variable]
		}
		made.text, err = b.text(step.Set.Value)
		return made, err
	case step.Rewrite != nil:
		made.kind, made.rewrite = stepRewrite, step.Rewrite
		if made.match, err = b.expression(step.Rewrite.Regexp); err != nil {
			return made, err
		}
		if made.text, err = b.text(step.Rewrite.Path); err != nil {
			return made, err
		}
		made.query, err = b.text(step.Rewrite.Query)
		return made, err
	case step.Return != nil:
		made.kind, made.status, made.hasText = stepReturn, step.Return.Status, step.Return.HasText
		made.text, err = b.text(step.Return.Text)
		return made, err
	}
	made.kind = stepBreak
	return made, nil
}

func (b *directiveBuilder) condition(step *route.DirectiveIf) (made directiveStep, err error) {
	made = directiveStep{kind: stepIf, operator: step.Operator, skip: step.Steps}
	if made.variable, err = b.part(route.TextPart{Variable: step.Variable}); err != nil {
		return made, err
	}
	if step.Regexp != "" {
		if made.match, err = b.expression(step.Regexp); err != nil {
			return made, err
		}
	}
	if made.text, err = b.text(step.Value); err != nil {
		return made, err
	}
	made.response, err = b.response(&step.Response)
	return made, err
}

func (b *directiveBuilder) expression(text string) (*directiveExpression, error) {
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, invalid("regexp", "not a regular expression in RE2 syntax: %v", err)
	}
	made := &directiveExpression{expression: compiled}
	for _, name := range compiled.SubexpNames() {
		slot := -1
		if name != "" {
			slot = b.slots[strings.ToLower(name)]
		}
		made.slots = append(made.slots, slot)
	}
	return made, nil
}

func (b *directiveBuilder) response(response *route.DirectiveResponse) (*directiveResponse, error) {
	change, err := b.headers("response.change", response.Change)
	if err != nil {
		return nil, err
	}
	add, err := b.headers("response.add", response.Add)
	if err != nil || len(change)+len(add) == 0 {
		return &directiveResponse{}, err
	}
	return &directiveResponse{change: change, add: add}, nil
}

func (b *directiveBuilder) headers(field string, headers []route.TextHeader) (made []textHeader, err error) {
	for i := range headers {
		header := &headers[i]
		compiled := textHeader{name: strings.ToLower(header.Name), always: header.Always, statuses: slices.Clone(header.Statuses)}
		at := fmt.Sprintf("%s[%d]", field, i)
		if compiled.set, err = h1.SetField(header.Name, ""); err != nil {
			return nil, invalid(at, "%v", err)
		}
		if compiled.add, err = h1.AddField(header.Name, ""); err != nil {
			return nil, invalid(at, "%v", err)
		}
		if compiled.remove, err = h1.RemoveField(header.Name); err != nil {
			return nil, invalid(at, "%v", err)
		}
		if compiled.value, err = b.text(header.Value); err != nil {
			return nil, placed(at, err)
		}
		made = append(made, compiled)
	}
	return made, nil
}
