package jq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/itchyny/gojq"
)

// functions are what an expression may call. Each gives part of what it is given,
// a number, a yes or no, or a list that is not larger: none makes a text or a
// list that several calls could grow without end.
func functions() map[string]bool {
	known := map[string]bool{}
	for _, names := range []string{
		"empty error not select recurse range first last nth limit skip until while repeat isempty",
		"any all in inside has contains startswith endswith test index rindex indices IN",
		"type length utf8bytelength keys keys_unsorted to_entries path paths getpath",
		"ltrimstr rtrimstr trimstr trim ltrim rtrim ascii_downcase ascii_upcase tonumber floor abs",
		"values nulls strings numbers booleans arrays objects iterables scalars",
	} {
		for _, name := range strings.Fields(names) {
			known[name] = true
		}
	}
	return known
}

// pathChecker checks that a query only selects fields. It walks the parsed
// query before it is compiled: everything that is not allowed by name is
// refused.
type pathChecker struct {
	known map[string]bool
	depth int
}

// maxDepth bounds how deep an expression is nested.
const maxDepth = 100

// errDepth is returned for an expression that is nested above maxDepth. The
// checker is recursive, so that the depth bounds its stack.
var errDepth = errors.New("it is nested too deep")

// builds is the error for a construct that creates values.
func builds(what string) error {
	return fmt.Errorf("%.40s is not supported: an expression selects fields, such as .spec.containers[] | select(.name == \"a\"), and builds nothing", what)
}

// queries checks several queries.
func (s *pathChecker) queries(all ...*gojq.Query) error {
	for _, query := range all {
		if err := s.query(query); err != nil {
			return err
		}
	}
	return nil
}

// query checks one query: a pipeline, an operator or a term.
func (s *pathChecker) query(query *gojq.Query) error {
	if query == nil {
		return nil
	}
	if s.depth++; s.depth > maxDepth {
		return errDepth
	}
	defer func() { s.depth-- }()
	switch {
	case len(query.FuncDefs) > 0:
		return builds("def")
	case len(query.Imports) > 0 || query.Meta != nil:
		return builds("import")
	case query.Term != nil:
		return s.term(query.Term)
	}
	if err := s.operator(query); err != nil {
		return err
	}
	for _, pattern := range query.Patterns {
		if err := s.pattern(pattern); err != nil {
			return err
		}
	}
	return s.queries(query.Left, query.Right)
}

// operator checks an operator. Selection, comparison and logic are allowed.
// Addition and division are allowed with a number only: on texts and arrays they
// build values.
func (s *pathChecker) operator(query *gojq.Query) error {
	switch query.Op {
	case gojq.OpPipe, gojq.OpComma, gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe,
		gojq.OpAnd, gojq.OpOr, gojq.OpAlt, gojq.OpSub, gojq.OpMod:
		return nil
	case gojq.OpAdd, gojq.OpDiv:
		// With a number these are of numbers. Otherwise they put texts together, or
		// take them apart.
		if isNumber(query.Left) || isNumber(query.Right) {
			return nil
		}
	}
	return builds("the operator " + query.Op.String())
}

// isNumber reports whether a query is a numeric constant.
func isNumber(query *gojq.Query) bool {
	return query != nil && query.Term != nil && query.Term.Type == gojq.TermTypeNumber && len(query.Term.SuffixList) == 0
}

// term checks a term by its type. Types that the parser adds later are refused,
// because the default is an error.
func (s *pathChecker) term(term *gojq.Term) error {
	for _, suffix := range term.SuffixList {
		if err := s.index(suffix.Index); err != nil {
			return err
		}
	}
	switch term.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeRecurse, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return nil
	case gojq.TermTypeIndex:
		return s.index(term.Index)
	case gojq.TermTypeFunc:
		return s.call(term.Func)
	case gojq.TermTypeString:
		return s.text(term.Str)
	case gojq.TermTypeArray, gojq.TermTypeObject:
		if !isConstant(term, 0) {
			return builds("an array or object with anything but constants")
		}
		return nil
	case gojq.TermTypeUnary:
		return s.term(term.Unary.Term)
	case gojq.TermTypeIf:
		for _, branch := range term.If.Elif {
			if err := s.queries(branch.Cond, branch.Then); err != nil {
				return err
			}
		}
		return s.queries(term.If.Cond, term.If.Then, term.If.Else)
	case gojq.TermTypeTry:
		return s.queries(term.Try.Body, term.Try.Catch)
	case gojq.TermTypeQuery:
		return s.query(term.Query)
	}
	return builds(firstWord(term.String()))
}

// index checks the index of a path.
func (s *pathChecker) index(index *gojq.Index) error {
	if index == nil {
		return nil
	}
	if err := s.text(index.Str); err != nil {
		return err
	}
	return s.queries(index.Start, index.End)
}

// text checks a string: interpolation would evaluate any query.
func (s *pathChecker) text(text *gojq.String) error {
	if text != nil && len(text.Queries) > 0 {
		return builds("a text with parts in it")
	}
	return nil
}

// call checks a function by its name: only those of the list are allowed, and
// no variable that reads the environment.
func (s *pathChecker) call(call *gojq.Func) error {
	if variable := strings.HasPrefix(call.Name, "$"); variable && (call.Name == "$ENV" || call.Name == "$__loc__") {
		return builds(call.Name)
	} else if !variable && !s.known[call.Name] {
		return builds(call.Name)
	}
	return s.queries(call.Args...)
}

// pattern checks a destructuring pattern after "as".
func (s *pathChecker) pattern(pattern *gojq.Pattern) error {
	if pattern == nil {
		return nil
	}
	for _, element := range pattern.Array {
		if err := s.pattern(element); err != nil {
			return err
		}
	}
	for _, entry := range pattern.Object {
		if entry.KeyQuery != nil || entry.KeyString != nil && len(entry.KeyString.Queries) > 0 {
			return builds("a pattern with parts in its keys")
		}
		if err := s.pattern(entry.Val); err != nil {
			return err
		}
	}
	return nil
}

// isConstant reports whether a term is a value that is written out.
func isConstant(term *gojq.Term, depth int) bool {
	if term == nil || depth > maxDepth || len(term.SuffixList) > 0 {
		return false
	}
	switch term.Type {
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return true
	case gojq.TermTypeString:
		return len(term.Str.Queries) == 0
	case gojq.TermTypeUnary:
		return isConstant(term.Unary.Term, depth+1)
	case gojq.TermTypeArray:
		return term.Array.Query == nil || areConstant(term.Array.Query, depth+1)
	case gojq.TermTypeObject:
		for _, entry := range term.Object.KeyVals {
			if entry.Val == nil || entry.KeyQuery != nil || entry.KeyString != nil && len(entry.KeyString.Queries) > 0 ||
				strings.HasPrefix(entry.Key, "$") || entry.Val.Term == nil || !isConstant(entry.Val.Term, depth+1) {
				return false
			}
		}
		return true
	}
	return false
}

// areConstant is isConstant for values with commas between them.
func areConstant(query *gojq.Query, depth int) bool {
	switch {
	case depth > maxDepth || len(query.FuncDefs) > 0:
		return false
	case query.Term != nil:
		return isConstant(query.Term, depth)
	}
	return query.Op == gojq.OpComma && len(query.Patterns) == 0 && areConstant(query.Left, depth+1) && areConstant(query.Right, depth+1)
}

// firstWord is the beginning of an expression, for messages.
func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}
