package evaluate

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"k8s.io/client-go/util/jsonpath"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
)

// The forms of a response.
const (
	// Number is one number as text.
	Number = "number"
	// JSON is any document, of which JSONPath selects the value.
	JSON = "json"
	// Prometheus is a response of its API.
	Prometheus = "prometheus"
	// Times are no response: Times of the request are evaluated.
	Times = "times"
)

// Request is a response and how it becomes a measurement.
type Request struct {
	Form             string   `json:"form"`
	Body             []byte   `json:"body,omitempty"`
	JSONPath         string   `json:"jsonPath,omitempty"`
	SuccessCondition string   `json:"successCondition,omitempty"`
	FailureCondition string   `json:"failureCondition,omitempty"`
	Times            []string `json:"times,omitempty"`
}

// Result is the outcome of a request. With the phase Error, Message is the reason.
type Result struct {
	Phase    v1alpha1.AnalysisPhase `json:"phase,omitempty"`
	Value    string                 `json:"value,omitempty"`
	Message  string                 `json:"message,omitempty"`
	Warnings []string               `json:"warnings,omitempty"`
	Times    []time.Time            `json:"times,omitempty"`
}

// Evaluate computes the result of a request. All errors are part of it.
func Evaluate(request Request) Result {
	var result Result
	var err error
	switch request.Form {
	case Number:
		result, err = number(request)
	case JSON:
		result, err = document(request)
	case Prometheus:
		result, err = samples(request)
	case Times:
		result.Times, err = times(request.Times)
	default:
		err = fmt.Errorf("responses of the form %q are not supported", request.Form)
	}
	if err != nil {
		return Result{Phase: v1alpha1.AnalysisPhaseError, Message: err.Error()}
	}
	return result
}

// number evaluates the conditions on one number.
func number(request Request) (Result, error) {
	value, err := strconv.ParseFloat(string(request.Body), 64)
	if err != nil {
		return Result{}, err
	}
	phase, err := phaseOf(value, request)
	return Result{Phase: phase, Value: formatNumber(value)}, err
}

// document evaluates the conditions on a value in a JSON document. A response that is
// not JSON is successful without regard to the conditions, as with Argo Rollouts.
func document(request Request) (Result, error) {
	path := request.JSONPath
	if path == "" {
		path = "{$}"
	}
	parser := jsonpath.New("metrics")
	if err := parser.Parse(path); err != nil {
		return Result{}, err
	}
	var data any
	if json.Unmarshal(request.Body, &data) != nil {
		return Result{Phase: v1alpha1.AnalysisPhaseSuccessful, Value: string(request.Body)}, nil
	}
	found, err := parser.FindResults(data)
	if err != nil {
		return Result{}, fmt.Errorf("Could not find JSONPath in body: %w", err)
	}
	value, err := first(found)
	if err != nil {
		return Result{}, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return Result{}, err
	}
	phase, err := phaseOf(value, request)
	return Result{Phase: phase, Value: string(text)}, err
}

// first returns the first value that a path selects.
func first(found [][]reflect.Value) (any, error) {
	for _, values := range found {
		for _, value := range values {
			if !value.IsValid() {
				return nil, nil
			}
			return value.Interface(), nil
		}
	}
	return nil, errors.New("result of web metric produced no value")
}
