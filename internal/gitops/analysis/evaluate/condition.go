package evaluate

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// maxExpression bounds the text of an expression.
const maxExpression = 16 << 10

// phaseOf evaluates the conditions on a result. A condition that is not given is the
// opposite of the other one; without any, every measurement is successful.
func phaseOf(result any, request Request) (v1alpha1.AnalysisPhase, error) {
	success, err := evalNamed("successCondition", request.SuccessCondition, result)
	if err != nil {
		return "", err
	}
	failure, err := evalNamed("failureCondition", request.FailureCondition, result)
	if err != nil {
		return "", err
	}
	switch {
	case request.SuccessCondition == "" && request.FailureCondition == "":
		return v1alpha1.AnalysisPhaseSuccessful, nil
	case request.FailureCondition == "":
		failure = !success
	case request.SuccessCondition == "":
		success = !failure
	}
	switch {
	case failure:
		return v1alpha1.AnalysisPhaseFailed, nil
	case success:
		return v1alpha1.AnalysisPhaseSuccessful, nil
	}
	return v1alpha1.AnalysisPhaseInconclusive, nil
}

// evalNamed evaluates one condition; an empty one is false. The error has the words of
// Argo Rollouts, which name missing data first: it is the usual reason.
func evalNamed(name, condition string, result any) (bool, error) {
	if condition == "" {
		return false, nil
	}
	met, err := evalCondition(condition, result)
	switch {
	case err == nil:
		return met, nil
	case isEmpty(result):
		return false, fmt.Errorf("could not evaluate %s \"%s\": metric result is nil or empty: no data returned from the metric provider", name, condition)
	}
	return false, fmt.Errorf("could not evaluate %s \"%s\": %w", name, condition, err)
}

// evalCondition evaluates an expression that is true or false.
func evalCondition(condition string, result any) (bool, error) {
	if isNil(result) {
		result = nil // a nil slice too, which is not equal to nil in the language
	}
	output, err := run(condition, map[string]any{
		"result": result, "asInt": asInt, "asFloat": asFloat, "isNaN": math.IsNaN, "isInf": isInf,
		// The two are about the result, whatever their argument is, as with Argo Rollouts.
		"isNil": func(any) bool { return result == nil },
		"default": func(_, otherwise any) any {
			if result == nil {
				return otherwise
			}
			return result
		},
	})
	if err != nil {
		return false, err
	}
	met, ok := output.(bool)
	if !ok {
		return false, fmt.Errorf("expected bool, but got %T", output)
	}
	return met, nil
}

// times evaluates expressions of times, such as now() - duration("1h").
func times(expressions []string) ([]time.Time, error) {
	all := make([]time.Time, len(expressions))
	for i, expression := range expressions {
		output, err := run(expression, map[string]any{"isNaN": math.IsNaN, "isInf": isInf})
		if err != nil {
			return nil, err
		}
		at, ok := output.(time.Time)
		if !ok {
			return nil, fmt.Errorf("expected time.Time, but got %T", output)
		}
		all[i] = at
	}
	return all, nil
}

// run compiles and runs an expression. Errors are without the excerpt of the source.
func run(expression string, environment map[string]any) (any, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("the expression is longer than %d bytes", maxExpression)
	}
	program, err := expr.Compile(expression, expr.Env(environment))
	if err != nil {
		return nil, short(err)
	}
	output, err := expr.Run(program, environment)
	return output, short(err)
}

func short(err error) error {
	if located, ok := errors.AsType[*file.Error](err); ok {
		return errors.New(located.Message)
	}
	return err
}

// isNil reports whether a value is nil, also within an interface.
func isNil(value any) bool {
	if value == nil {
		return true
	}
	switch of := reflect.ValueOf(value); of.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return of.IsNil()
	}
	return false
}

// isEmpty reports whether there is no result.
func isEmpty(value any) bool {
	if isNil(value) {
		return true
	}
	of := reflect.ValueOf(value)
	return of.Kind() == reflect.Slice && of.Len() == 0
}

func isInf(value float64) bool { return math.IsInf(value, 0) }

// asInt and asFloat convert numbers and texts. The interpreter makes an error of a
// panic.
func asInt(value any) int64 {
	switch of := reflect.ValueOf(value); {
	case of.CanInt():
		return of.Int()
	case of.CanUint():
		return int64(of.Uint())
	case of.CanFloat():
		return int64(of.Float())
	}
	text, ok := value.(string)
	if !ok {
		panic(fmt.Sprintf("asInt() not supported on %v %v", reflect.TypeOf(value), value))
	}
	parsed, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return parsed
}

func asFloat(value any) float64 {
	switch of := reflect.ValueOf(value); {
	case of.CanInt():
		return float64(of.Int())
	case of.CanUint():
		return float64(of.Uint())
	case of.CanFloat():
		return of.Float()
	}
	text, ok := value.(string)
	if !ok {
		panic(fmt.Sprintf("asFloat() not supported on %v %v", reflect.TypeOf(value), value))
	}
	parsed, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return parsed
}
