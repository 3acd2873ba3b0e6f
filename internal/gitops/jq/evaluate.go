package jq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/itchyny/gojq"
)

// The limits. Those that Argo CD has no word for are far above what selecting
// fields of an object needs.
const (
	// maxExpression bounds the text of an expression.
	maxExpression = 4096
	// maxKept is how many compiled expressions are kept.
	maxKept = 512
	// maxSteps bounds what one evaluation does, and with it what it remembers.
	maxSteps = 2_000_000
	// timeLimit is Argo CD's.
	timeLimit = time.Second
	// maxStuck is how many evaluations may be stuck before no more are begun.
	maxStuck = 4
)

// The errors of an evaluation.
var (
	errSteps = errors.New("the expression does too much: select less, or name the field")
	errTime  = errors.New("the expression took longer than 1s")
	errStuck = errors.New("the expression took too long before and is not tried again: write it in another way")
	errLeft  = errors.New("too many expressions take too long, so that no more are begun")
)

// Evaluator evaluates expressions. It is safe for concurrent use.
type Evaluator struct {
	functions map[string]bool

	mu    sync.Mutex
	cache map[string]*compiled
	// stuck counts evaluations that were abandoned and still run.
	stuck atomic.Int32
}

// compiled is an expression, or why it cannot be evaluated.
type compiled struct {
	code *gojq.Code
	err  error
}

// New makes an Evaluator.
func New() *Evaluator { return &Evaluator{functions: functions(), cache: map[string]*compiled{}} }

// Check reports whether an expression can be evaluated.
func (e *Evaluator) Check(expression string) error { return e.get(expression).err }

// Delete gives a document without what an expression selects. It may change the
// one it was given, which must not be used any more, not even after an error.
func (e *Evaluator) Delete(expression string, document map[string]any) (map[string]any, error) {
	expr := e.get(expression)
	if expr.err != nil {
		return nil, expr.err
	}
	if e.stuck.Load() >= maxStuck {
		return nil, errLeft
	}
	type outcome struct {
		document map[string]any
		err      error
	}
	done := make(chan outcome, 1)
	go func() {
		rest, err := run(expr.code, document)
		done <- outcome{rest, err}
	}()
	// The evaluation checks the deadline itself, between steps. This timer is
	// for a single step that does not end.
	late := time.NewTimer(2 * timeLimit)
	defer late.Stop()
	select {
	case result := <-done:
		return result.document, result.err
	case <-late.C:
	}
	e.markFailing(expression)
	e.stuck.Add(1)
	go func() {
		<-done
		e.stuck.Add(-1)
	}()
	return nil, errTime
}

// markFailing keeps an expression from being tried again.
func (e *Evaluator) markFailing(expression string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cache[expression] = &compiled{err: errStuck}
}

// get gives the compiled expression.
func (e *Evaluator) get(expression string) *compiled {
	e.mu.Lock()
	defer e.mu.Unlock()
	if found, ok := e.cache[expression]; ok {
		return found
	}
	made := &compiled{}
	made.code, made.err = e.compile(expression)
	// Any entry goes: expressions come from Applications and are few; the bound
	// is against floods.
	if len(e.cache) >= maxKept {
		for other := range e.cache {
			delete(e.cache, other)
			break
		}
	}
	if len(expression) <= maxExpression {
		e.cache[expression] = made
	}
	return made
}

// compile parses and checks an expression. Only path expressions are allowed:
// they select fields and cannot build values, which bounds memory.
func (e *Evaluator) compile(expression string) (code *gojq.Code, err error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("the jq expression has %d characters, the most is %d", len(expression), maxExpression)
	}
	if strings.TrimSpace(expression) == "" {
		return nil, errors.New("the jq expression is empty: write a path such as .spec.replicas")
	}
	// The library panics on some input.
	defer func() {
		if recover() != nil {
			code, err = nil, errors.New("the jq expression cannot be read")
		}
	}()
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("the jq expression %.80q cannot be read: %w", expression, err)
	}
	checker := pathChecker{known: e.functions}
	if err := checker.query(query); err != nil {
		return nil, fmt.Errorf("the jq expression %.80q: %w", expression, err)
	}
	// The expression becomes the argument of del: it cannot do anything else
	// than select.
	whole := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: "del", Args: []*gojq.Query{query}}}}
	code, err = gojq.Compile(whole, gojq.WithEnvironLoader(func() []string { return nil }))
	if err != nil {
		return nil, fmt.Errorf("the jq expression %.80q cannot be used: %w", expression, err)
	}
	return code, nil
}

// run evaluates to the first result, which is the only one.
func run(code *gojq.Code, document map[string]any) (rest map[string]any, err error) {
	defer func() {
		if recover() != nil {
			rest, err = nil, errors.New("the expression cannot be evaluated on this object")
		}
	}()
	limit := &stepLimit{Context: context.Background(), until: time.Now().Add(timeLimit)}
	value, ok := code.RunWithContext(limit, toJQ(document)).Next()
	if !ok {
		return nil, errors.New("the expression gives nothing")
	}
	if failure, failed := value.(error); failed {
		if spent := limit.Err(); spent != nil {
			return nil, spent
		}
		return nil, fmt.Errorf("the expression fails on this object: %.200s", failure.Error())
	}
	rest, ok = value.(map[string]any)
	if !ok {
		return nil, errors.New("the expression leaves no object")
	}
	return fromJQ(rest).(map[string]any), nil
}

// stepLimit is a context that is done after a number of steps: the interpreter
// checks it before each.
type stepLimit struct {
	context.Context
	steps int
	until time.Time
	err   error
}

// closed is what a context that is done has.
func closed() <-chan struct{} {
	channel := make(chan struct{})
	close(channel)
	return channel
}

// Done counts.
func (f *stepLimit) Done() <-chan struct{} {
	f.steps++
	switch {
	case f.err != nil:
	case f.steps > maxSteps:
		f.err = errSteps
	case f.steps%4096 == 0 && time.Now().After(f.until):
		f.err = errTime
	default:
		return nil
	}
	return closed()
}

// Err returns why the context is done.
func (f *stepLimit) Err() error { return f.err }

// toJQ converts the numbers of a document to the types of the interpreter.
func toJQ(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = toJQ(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = toJQ(inner)
		}
	case int64:
		return int(v)
	case int32:
		return int(v)
	}
	return value
}

// fromJQ is the way back.
func fromJQ(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = fromJQ(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = fromJQ(inner)
		}
	case int:
		return int64(v)
	}
	return value
}
