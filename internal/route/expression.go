package route

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
)

// LiteralPrefix returns the text that every match of an expression starts with.
// It is empty for an expression that is not anchored with ^, that ignores case,
// or that does not parse.
func LiteralPrefix(expression string) string {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return ""
	}
	var literal literalReader
	literal.read(parsed)
	return literal.text.String()
}

// literalReader walks an expression from its start, as long as it matches exactly
// one text.
type literalReader struct {
	text     strings.Builder
	anchored bool
}

// read appends the literal text of a part, and reports whether to continue with the
// next part.
func (l *literalReader) read(expression *syntax.Regexp) bool {
	switch expression.Op {
	case syntax.OpEmptyMatch:
		return true
	case syntax.OpBeginText:
		l.anchored = true
		return l.text.Len() == 0
	case syntax.OpCapture:
		return l.read(expression.Sub[0])
	case syntax.OpConcat:
		for _, part := range expression.Sub {
			if !l.read(part) {
				return false
			}
		}
		return true
	case syntax.OpLiteral:
		if !l.anchored || expression.Flags&syntax.FoldCase != 0 {
			return false
		}
		for _, r := range expression.Rune {
			l.text.WriteRune(r)
		}
		return true
	default:
		return false
	}
}

// checkExpression validates an expression. Its bound is on the compiled program: a
// few letters can stand for a large one, as in (.{1000}){1000}, and every request
// would pay for it.
func checkExpression(expression string) error {
	if expression == "" {
		return errors.New("the regular expression is empty; leave the condition out instead")
	}
	if len(expression) > MaxExpressionLength {
		return fmt.Errorf("the regular expression has %d bytes; at most %d are allowed", len(expression), MaxExpressionLength)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return fmt.Errorf("not a regular expression in RE2 syntax: %s", syntaxMessage(err))
	}
	if expressionSize(parsed) > MaxExpressionSize {
		return fmt.Errorf("the regular expression repeats too much; it would need more than %d steps", MaxExpressionSize)
	}
	return nil
}

func syntaxMessage(err error) string {
	if parse, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Sprintf("%s: %q", parse.Code, parse.Expr)
	}
	return err.Error()
}

// ExpressionSteps estimates the number of instructions that an expression compiles
// to, at most a little more than MaxExpressionSize; 0 for text that is no
// expression. An object with many expressions is bounded by their sum.
func ExpressionSteps(expression string) int {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0
	}
	return expressionSize(parsed)
}

// expressionSize estimates the number of instructions that an expression compiles
// to. It stops counting a little above MaxExpressionSize.
func expressionSize(expression *syntax.Regexp) int {
	size := 1
	switch expression.Op {
	case syntax.OpLiteral:
		size = len(expression.Rune)
	case syntax.OpCapture:
		size = 2
	case syntax.OpAlternate:
		size = len(expression.Sub)
	}
	for _, part := range expression.Sub {
		size += expressionSize(part)
		if size > MaxExpressionSize {
			return MaxExpressionSize + 1
		}
	}
	if expression.Op == syntax.OpRepeat {
		size *= max(expression.Min, expression.Max, 1)
	}
	return min(size, MaxExpressionSize+1)
}
