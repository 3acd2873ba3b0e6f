package message

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // the key of Argo CD, which protects nothing
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
)

// maxExpression bounds the text of an expression.
const maxExpression = 16 << 10

// evaluate computes the conditions of a trigger. An expression that fails makes its
// condition false, and the others count.
func evaluate(conditions []Condition, variables map[string]any) []Result {
	results := make([]Result, len(conditions))
	for i, condition := range conditions {
		result := Result{Key: conditionKey(i, condition.When)}
		met, err := run(cmp.Or(condition.When, "false"), variables)
		if err != nil {
			result.Problem = "when: " + err.Error()
		}
		result.Triggered, _ = met.(bool)
		if result.Triggered && condition.OncePer != "" {
			value, err := run(condition.OncePer, variables)
			if err != nil {
				result.Problem = "oncePer: " + err.Error()
			} else {
				result.OncePer = fmt.Sprint(value)
			}
		}
		results[i] = result
	}
	return results
}

// conditionKey is the key of a condition in the record of what was sent. It is that of
// Argo CD, so that its record continues to count.
func conditionKey(at int, when string) string {
	sum := sha1.Sum([]byte(when)) //nolint:gosec // see the import
	return fmt.Sprintf("[%d].%s", at, base64.RawURLEncoding.EncodeToString(sum[:]))
}

// run compiles and runs an expression. The variables are not declared: a field that is
// missing is nil, as with Argo CD.
func run(expression string, variables map[string]any) (any, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	}
	program, err := expr.Compile(expression)
	if err != nil {
		return nil, firstLine(err)
	}
	value, err := expr.Run(program, variables)
	return value, firstLine(err)
}

// firstLine drops the excerpt of the source.
func firstLine(err error) error {
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("%s", line)
}
