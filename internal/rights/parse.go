package rights

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// The bounds of one text. A ConfigMap has at most 1 MiB.
const (
	maxText     = 1 << 20
	maxLines    = 10_000 // with a rule
	maxRefusals = 50
)

// The forms of lines, for messages.
const (
	ruleForm    = "p, SUBJECT, RESOURCE, ACTION, OBJECT, allow|deny"
	bindingForm = "g, USER or GROUP, role:NAME"
)

// Parse reads the lines of a policy.csv with glob patterns. Origin is the name
// of the text in refusals and decisions. A refused line has no effect, the
// others do; because the line may have been a deny, a caller that enforces
// should keep the last policy that had no refusals.
func Parse(text, origin string) (*Policy, []refusal.Refusal) {
	return ParseMode(text, origin, Glob)
}

// ParseMode is Parse with a mode of matching.
func ParseMode(text, origin string, mode Mode) (*Policy, []refusal.Refusal) {
	p := &parser{policy: newPolicy(mode)}
	if len(text) > maxText {
		p.refuse(origin, refusal.New("", refusal.TooLarge, "the policy has %d bytes, the most is %d: give rights to roles, and roles to groups", len(text), maxText))
		return p.policy, p.refusals
	}
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		place := fmt.Sprintf("%s line %d", origin, number+1)
		if p.count++; p.count > maxLines {
			p.refuse(place, refusal.New("", refusal.TooMany, "this and the lines that follow are not read: a policy has at most %d", maxLines))
			break
		}
		p.refuse(place, p.line(line, place))
	}
	return p.policy, refusal.Bounded(p.refusals, maxRefusals)
}

// newPolicy returns a policy without rules.
func newPolicy(mode Mode) *Policy {
	return &Policy{rules: map[string][]rule{}, bindings: map[string][]binding{}, mode: mode}
}

// parser adds lines to a policy.
type parser struct {
	policy   *Policy
	refusals []refusal.Refusal
	count    int
}

// refuse keeps a refusal with its place, if there is one.
func (p *parser) refuse(place string, problem *refusal.Refusal) {
	if problem != nil {
		p.refusals = append(p.refusals, *problem.At(place))
	}
}

// line reads one line.
func (p *parser) line(line, place string) *refusal.Refusal {
	fields, problem := splitLine(line)
	if problem != nil {
		return problem
	}
	switch fields[0] {
	case "p":
		r, problem := compileRule(fields, p.policy.mode)
		if problem != nil {
			return problem
		}
		r.place, r.fields = place, fields
		p.policy.rules[fields[1]] = append(p.policy.rules[fields[1]], r)
	case "g":
		if len(fields) != 3 || slices.Contains(fields, "") {
			return refusal.New("", refusal.Invalid, "a g line has three fields: write %s", bindingForm)
		}
		if strings.Contains(fields[2], " #") {
			return refusal.New("", refusal.Invalid, "the role is %q: a comment is a line of its own", fields[2])
		}
		p.policy.bindings[fields[1]] = append(p.policy.bindings[fields[1]], binding{role: fields[2]})
	default:
		return refusal.New("", refusal.Unknown, "a line begins with p or g, and this one with %q: write %s, or %s", fields[0], ruleForm, bindingForm)
	}
	return nil
}

// splitLine returns the fields of a line. As in Argo CD they are CSV: a field
// with a comma, such as a {a,b} pattern, is in quotes.
func splitLine(line string) ([]string, *refusal.Refusal) {
	reader := csv.NewReader(strings.NewReader(line))
	reader.TrimLeadingSpace = true
	fields, err := reader.Read()
	if err != nil {
		return nil, refusal.New("", refusal.Invalid, "the quotes are not those of CSV: write a field with a comma as \"a,b\", and a quote in it twice")
	}
	for i, field := range fields {
		fields[i] = strings.TrimSpace(field)
	}
	return fields, nil
}

// compileRule reads the fields of a p line, and refuses those that no request
// can match: most are misspelt.
func compileRule(fields []string, mode Mode) (rule, *refusal.Refusal) {
	if len(fields) != 6 || slices.Contains(fields, "") {
		return rule{}, refusal.New("", refusal.Invalid, "a p line has six fields, and this one %d: write %s", len(fields), ruleForm)
	}
	resource, action, object, effect := fields[2], fields[3], fields[4], fields[5]
	if effect != "allow" && effect != "deny" {
		return rule{}, refusal.New("", refusal.Invalid, "the effect is %q: write allow or deny", effect)
	}
	r := rule{deny: effect == "deny"}
	for i, compiled := range []*pattern{&r.resource, &r.action, &r.object} {
		var err error
		if *compiled, err = compilePattern(fields[2+i], mode); err != nil {
			return rule{}, refusal.New("", refusal.Invalid, "%v", err)
		}
	}
	if !slices.ContainsFunc(Resources(), r.resource.match) {
		return rule{}, refusal.New("", refusal.Unknown, "there is no resource %q: write one of %s", resource, strings.Join(Resources(), ", "))
	}
	if verb, _, _ := strings.Cut(action, "/"); isLiteral(verb, mode) && !slices.Contains(Actions(), verb) {
		return rule{}, refusal.New("", refusal.Unknown, "there is no action %q: write one of %s, update/GROUP/KIND/NAMESPACE/NAME, delete/GROUP/KIND/NAMESPACE/NAME, action/GROUP/KIND/ACTION",
			action, strings.Join(Actions(), ", "))
	}
	if resource == Applications && isLiteral(object, mode) && !strings.Contains(object, "/") {
		return rule{}, refusal.New("", refusal.Invalid, "the object %q names no project, so no Application matches: write PROJECT/%s", object, object)
	}
	return r, nil
}
