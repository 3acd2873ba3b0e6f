package expand

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Form is the syntax of texts.
type Form struct {
	// Go is goTemplate: texts are Go templates.
	Go bool
	// Options are goTemplateOptions.
	Options []string
}

// Expander expands the texts of one ApplicationSet. One goroutine uses it.
type Expander struct {
	form      Form
	budget    *budget
	functions template.FuncMap
	// tick, enter and leave are the calls that parse adds to templates, and counters
	// their functions. Texts cannot call them.
	tick, enter, leave parse.Node
	counters           template.FuncMap
	// parsed caches templates by text: most are used once for each Application.
	parsed map[string]*template.Template
}

// options are the options of Go's templates.
func options() []string {
	return []string{"missingkey=default", "missingkey=invalid", "missingkey=zero", "missingkey=error"}
}

// New returns an Expander.
func New(form Form) (*Expander, error) {
	e := &Expander{form: form, budget: &budget{}, parsed: map[string]*template.Template{}}
	if !form.Go {
		return e, nil
	}
	for i, option := range form.Options {
		if !slices.Contains(options(), option) {
			return nil, fmt.Errorf("spec.goTemplateOptions[%d]: %.40q is not an option: write one of %s", i, option, strings.Join(options(), ", "))
		}
	}
	e.functions = functionsOf(e.budget)
	e.counters = template.FuncMap{"tick": e.budget.tick, "enter": e.budget.enter, "leave": e.budget.leave}
	calls, err := template.New("").Funcs(e.counters).Parse("{{tick}}{{enter}}{{leave}}")
	if err != nil {
		return nil, err
	}
	e.tick, e.enter, e.leave = calls.Root.Nodes[0], calls.Root.Nodes[1], calls.Root.Nodes[2]
	return e, nil
}

// Text expands one text. Without {{ it returns the text at once, which is true
// for most fields of a template.
func (e *Expander) Text(ctx context.Context, text string, params map[string]any) (string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	if len(text) > maxText {
		return "", fmt.Errorf("a text has %d bytes, the most is %d", len(text), maxText)
	}
	if !e.form.Go {
		return simple(text, params)
	}
	parsed, err := e.parse(text)
	if err != nil {
		return "", err
	}
	e.budget.refill(ctx)
	// The parameters are copied for each text, because functions such as set
	// change dictionaries in place.
	out := &output{}
	if err := parsed.Execute(out, Clone(params)); err != nil {
		return "", explain(text, err)
	}
	return string(out.text), nil
}

// Value expands all texts in decoded JSON, including the names of fields. The
// input is not changed.
func (e *Expander) Value(ctx context.Context, value any, params map[string]any) (any, error) {
	switch v := value.(type) {
	case string:
		return e.Text(ctx, v, params)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			var err error
			if list[i], err = e.Value(ctx, element, params); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		return e.object(ctx, v, params)
	}
	return value, nil
}

// object expands names and values of an object. Names that become equal are an
// error, because which value stays would depend on the order of the map.
func (e *Expander) object(ctx context.Context, given, params map[string]any) (map[string]any, error) {
	object := make(map[string]any, len(given))
	for name, content := range given {
		expanded, err := e.Value(ctx, content, params)
		if err != nil {
			return nil, err
		}
		if name, err = e.Text(ctx, name, params); err != nil {
			return nil, err
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("two fields become %.80q: give them different names", name)
		}
		object[name] = expanded
	}
	return object, nil
}

// maxParsed bounds the cache. A set has far fewer texts.
const maxParsed = 1000

// baseName is the name of a text as a template, which is that of Argo CD: a text
// can call itself by it.
const baseName = "base"

// parse compiles a template and instruments it, and those that it defines.
func (e *Expander) parse(text string) (*template.Template, error) {
	if parsed, ok := e.parsed[text]; ok {
		return parsed, nil
	}
	parsed, err := template.New(baseName).Funcs(e.functions).Option(e.form.Options...).Parse(text)
	if err != nil {
		return nil, explain(text, err)
	}
	// Added after the text is parsed: no text can name them.
	parsed.Funcs(e.counters)
	for _, one := range parsed.Templates() {
		e.countCalls(one.Root)
		e.countLoops(one.Root)
	}
	if len(e.parsed) >= maxParsed {
		clear(e.parsed)
	}
	e.parsed[text] = parsed
	return parsed, nil
}

// countCalls adds calls to the begin and the end of a template: templates can call
// each other without end, which no counter of loops would see.
func (e *Expander) countCalls(body *parse.ListNode) {
	body.Nodes = slices.Concat([]parse.Node{e.enter}, body.Nodes, []parse.Node{e.leave})
}

// countLoops adds a call to every loop that counts its iterations: nothing else
// would interrupt a long one.
func (e *Expander) countLoops(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, node := range list.Nodes {
		var inner []*parse.ListNode
		switch n := node.(type) {
		case *parse.IfNode:
			inner = []*parse.ListNode{n.List, n.ElseList}
		case *parse.WithNode:
			inner = []*parse.ListNode{n.List, n.ElseList}
		case *parse.RangeNode:
			inner = []*parse.ListNode{n.List, n.ElseList}
		}
		for _, below := range inner {
			e.countLoops(below)
		}
		if loop, ok := node.(*parse.RangeNode); ok {
			loop.List.Nodes = slices.Insert(loop.List.Nodes, 0, e.tick)
		}
	}
}

// explain adds the text to an error of a template. Go's message begins with the
// name of the template and the position in it.
func explain(text string, err error) error {
	if limit, ok := errors.AsType[limitError](err); ok {
		return fmt.Errorf("the template %.100q: %w", text, limit)
	}
	message := strings.TrimPrefix(err.Error(), "template: ")
	return fmt.Errorf("the template %.100q: %.300s", text, message)
}

// hasTag matches a text of the older form that is expanded at all: with a
// parameter on one line, as in Argo CD.
var hasTag = regexp.MustCompile(`{{.*}}`)

// errOpenTag is the error of a text of the older form with {{ and no }} after it.
var errOpenTag = errors.New("it has {{ without }}")

// simple replaces {{name}} by the parameters that are texts. A parameter that
// does not exist, or is no text, stays as it is written, as in Argo CD; the
// result is usually refused as a name then.
func simple(text string, params map[string]any) (string, error) {
	if !hasTag.MatchString(text) {
		return text, nil
	}
	var out strings.Builder
	rest := text
	for {
		before, tag, found := strings.Cut(rest, "{{")
		if !found {
			break
		}
		name, after, closed := strings.Cut(tag, "}}")
		if !closed {
			return "", fmt.Errorf("the template %.100q: %w", text, errOpenTag)
		}
		out.WriteString(before)
		if value, ok := params[strings.TrimSpace(name)].(string); ok {
			out.WriteString(value)
		} else {
			out.WriteString("{{" + name + "}}")
		}
		if out.Len() > maxOutput {
			return "", fmt.Errorf("the template %.100q: %w", text, limitError(fmt.Sprintf("the result has more than %d KiB", maxOutput>>10)))
		}
		rest = after
	}
	out.WriteString(rest)
	return out.String(), nil
}

// Clone copies parameters, so that no template changes those of another.
func Clone(params map[string]any) map[string]any {
	copied, _ := cloneValue(params).(map[string]any)
	return copied
}

// cloneValue copies a value.
func cloneValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(v))
		for name, content := range v {
			copied[name] = cloneValue(content)
		}
		return copied
	case map[string]string:
		return maps.Clone(v)
	case []any:
		copied := make([]any, len(v))
		for i, content := range v {
			copied[i] = cloneValue(content)
		}
		return copied
	}
	return value
}
