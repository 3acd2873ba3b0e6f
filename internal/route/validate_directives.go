package route

import (
	"regexp/syntax"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// check validates directives. Every variable of a text is one of the request, a group,
// or one that a step sets: a name without a value would hide a mistake.
func (d *Directives) check(r *report) {
	if d == nil {
		return
	}
	r.enter("directives")
	defer r.leave()
	checkAtLeast(r, "behind", int64(d.Behind), 0)
	if d.stepCount() > MaxDirectives || len(d.Request) > MaxDirectives || len(d.Hide) > MaxDirectives {
		r.add("steps", refusal.TooMany, "there are more than %d directives; use fewer", MaxDirectives)
		return
	}
	c := directiveChecker{report: r, own: d.OwnVariables()}
	if len(c.own) > MaxDirectiveVariables {
		r.add("steps", refusal.TooMany, "they set more than %d variables; use fewer", MaxDirectiveVariables)
		return
	}
	if d.Groups != "" {
		checkExpressionField(r, "groups", d.Groups)
	}
	c.steps("server", d.Server)
	c.steps("steps", d.Steps)
	if d.expressionSteps() > MaxDirectiveExpressions {
		r.add("steps", refusal.TooLarge, "the regular expressions need more than %d steps; use fewer or shorter ones", MaxDirectiveExpressions)
	}
	c.headers("request", d.Request)
	checkEach(r, "hide", d.Hide, checkChangedHeader)
	c.response("response", &d.Response)
	c.response("serverResponse", &d.ServerResponse)
	c.auth(d.Auth)
	if hasControl(d.ContentType) {
		r.add("contentType", refusal.Invalid, "a content type has no control characters")
	}
}

// stepCount returns the number of steps and sets.
func (d *Directives) stepCount() int {
	count := len(d.Server) + len(d.Steps)
	if d.Auth != nil {
		count += len(d.Auth.Steps) + len(d.Auth.Set)
	}
	return count
}

// allSteps yields the steps of all lists.
func (d *Directives) allSteps(yield func(*DirectiveStep) bool) {
	lists := [][]DirectiveStep{d.Server, d.Steps}
	if d.Auth != nil {
		lists = append(lists, d.Auth.Steps)
	}
	for _, list := range lists {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// expressionSteps returns what the expressions of the steps compile to.
func (d *Directives) expressionSteps() int {
	total := 0
	for step := range d.allSteps {
		switch {
		case step.If != nil:
			total += ExpressionSteps(step.If.Regexp)
		case step.Rewrite != nil:
			total += ExpressionSteps(step.Rewrite.Regexp)
		}
	}
	return total
}

// OwnVariables returns the names that steps set: by themselves, and as groups of
// expressions.
func (d *Directives) OwnVariables() map[string]bool {
	own := map[string]bool{}
	named := func(expression string) {
		parsed, err := syntax.Parse(expression, syntax.Perl)
		if err != nil {
			return
		}
		for _, name := range parsed.CapNames() {
			if name != "" {
				own[strings.ToLower(name)] = true
			}
		}
	}
	if d.Auth != nil {
		for i := range d.Auth.Set {
			own[d.Auth.Set[i].Variable] = true
		}
	}
	for step := range d.allSteps {
		switch {
		case step.Set != nil:
			own[step.Set.Variable] = true
		case step.If != nil:
			named(step.If.Regexp)
		case step.Rewrite != nil:
			named(step.Rewrite.Regexp)
		}
	}
	return own
}

// directiveChecker validates the parts of directives.
type directiveChecker struct {
	report *report
	own    map[string]bool
	// authenticated is set for texts that see the response of an authentication server.
	authenticated bool
}

// auth validates the part of a sub-request. It has no path of its own that steps could
// change.
func (c *directiveChecker) auth(auth *DirectiveAuth) {
	if auth == nil {
		return
	}
	r := c.report
	r.enter("auth")
	defer r.leave()
	c.steps("steps", auth.Steps)
	for i := range auth.Steps {
		if step := &auth.Steps[i]; step.Rewrite != nil || step.Break || step.Set != nil && step.Set.Variable == "args" {
			r.addItem("steps", i, refusal.Invalid, "a sub-request has conditions, sets of variables, and returns")
		}
	}
	c.headers("request", auth.Request)
	c.authenticated = true
	for i := range auth.Set {
		r.enterItem("set", i)
		if name := auth.Set[i].Variable; !settable(name) || name == "args" {
			r.add("variable", refusal.Invalid, "%q is not the name of a variable that can be set", name)
		}
		c.text("value", auth.Set[i].Value)
		r.leave()
	}
	c.authenticated = false
}

// steps validates a list of steps.
func (c *directiveChecker) steps(field string, steps []DirectiveStep) {
	for i := range steps {
		c.report.enterItem(field, i)
		c.step(&steps[i], len(steps)-i-1)
		c.report.leave()
	}
}

// step validates one step, which rest others follow.
func (c *directiveChecker) step(step *DirectiveStep, rest int) {
	r, count := c.report, 0
	if step.If != nil {
		count++
		r.enter("if")
		c.condition(step.If, rest)
		r.leave()
	}
	if step.Set != nil {
		count++
		r.enter("set")
		if name := step.Set.Variable; !settable(name) {
			r.add("variable", refusal.Invalid, "%q is not the name of a variable that can be set", name)
		}
		c.text("value", step.Set.Value)
		r.leave()
	}
	if step.Rewrite != nil {
		count++
		r.enter("rewrite")
		c.rewrite(step.Rewrite)
		r.leave()
	}
	if step.Return != nil {
		count++
		r.enter("return")
		if step.Return.Status < 200 || step.Return.Status > 599 {
			r.add("status", refusal.Invalid, "%d is not an HTTP status from 200 to 599", step.Return.Status)
		}
		c.text("text", step.Return.Text)
		r.leave()
	}
	if step.Break {
		count++
	}
	if count != 1 {
		r.add("", refusal.Invalid, "a step does exactly one thing; it has %d", count)
	}
}

// condition validates a condition. The steps that it covers exist, and have no
// condition of their own that reaches further: nginx has none within another.
func (c *directiveChecker) condition(step *DirectiveIf, rest int) {
	r := c.report
	if !c.known(step.Variable) || IsGroup(step.Variable) {
		r.add("variable", refusal.Invalid, "%q is not a variable of the request or of a step", step.Variable)
	}
	checkChoice(r, "operator", step.Operator, DirectiveHolds, DirectiveEqual, DirectiveNotEqual, DirectiveMatches, DirectiveMatchesNo)
	if step.Operator == DirectiveMatches || step.Operator == DirectiveMatchesNo {
		checkExpressionField(r, "regexp", step.Regexp)
	} else if step.Regexp != "" {
		r.add("regexp", refusal.Conflict, "the operator does not use an expression; remove it")
	}
	c.text("value", step.Value)
	if step.Steps < 0 || step.Steps > rest {
		r.add("steps", refusal.Invalid, "%d steps do not follow", step.Steps)
	}
	c.response("response", &step.Response)
}

func (c *directiveChecker) rewrite(step *DirectiveRewrite) {
	r := c.report
	checkExpressionField(r, "regexp", step.Regexp)
	c.text("path", step.Path)
	c.text("query", step.Query)
	checkRedirectStatus(r, step.Redirect)
	checkOptionalChoice(r, "then", step.Then, ThenMatch, ThenServe)
}

func (c *directiveChecker) response(field string, response *DirectiveResponse) {
	c.report.enter(field)
	c.headers("change", response.Change)
	c.headers("add", response.Add)
	c.report.leave()
}

func (c *directiveChecker) headers(field string, headers []TextHeader) {
	r := c.report
	if len(headers) > MaxDirectives {
		r.add(field, refusal.TooMany, "there are more than %d headers; use fewer", MaxDirectives)
		return
	}
	for i := range headers {
		r.enterItem(field, i)
		checkChangedHeader(r, "name", headers[i].Name)
		c.text("value", headers[i].Value)
		if slices.ContainsFunc(headers[i].Statuses, func(status int) bool { return status < 100 || status > 599 }) {
			r.add("statuses", refusal.Invalid, "a status is a number from 100 to 599")
		}
		r.leave()
	}
}

// text validates the parts of a text.
func (c *directiveChecker) text(field string, text Text) {
	r := c.report
	if len(text) > MaxDirectiveParts {
		r.add(field, refusal.TooMany, "the text has more than %d parts; use fewer variables", MaxDirectiveParts)
		return
	}
	for i, part := range text {
		switch {
		case (part.Text == "") == (part.Variable == ""):
			r.addItem(field, i, refusal.Invalid, "a part is a text or a variable; give one of the two")
		case part.Variable != "" && !c.known(part.Variable):
			r.addItem(field, i, refusal.Invalid, "%q is not a variable of the request or of a step", part.Variable)
		case len(part.Text) > MaxDirectiveValue:
			r.addItem(field, i, refusal.TooLarge, "the text has more than %d bytes", MaxDirectiveValue)
		}
		checkText(r, field, part.Text)
	}
}

// known reports whether a variable has a value.
func (c *directiveChecker) known(name string) bool {
	return c.own[name] || IsGroup(name) || IsRequestVariable(name) || c.authenticated && IsAuthVariable(name)
}

// settable reports whether a set can have a variable.
func settable(name string) bool {
	return validVariable(name) && (name == "args" || !IsRequestVariable(name))
}

// validVariable reports whether a text can be the name of a variable: letters, digits
// and underscores, as nginx reads them.
func validVariable(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && c-'0' > 9 && c|0x20-'a' > 25 {
			return false
		}
	}
	return name != "" && len(name) <= MaxDirectiveName && !IsGroup(name)
}
