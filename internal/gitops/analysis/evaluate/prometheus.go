package evaluate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// response is a response of the API of Prometheus.
type response struct {
	Status    string   `json:"status"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
	Data      struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// series is an element of a vector, which has a Value, or of a matrix, which has Values.
type series struct {
	Value  *sample  `json:"value"`
	Values []sample `json:"values"`
}

// sample is a time and a number, which is written as text: JSON has no NaN.
type sample float64

// UnmarshalJSON reads [time, "number"].
func (s *sample) UnmarshalJSON(text []byte) error {
	var number string
	pair := []any{new(float64), &number}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(number, 64)
	*s = sample(value)
	return err
}

// samples evaluates the conditions on a response of Prometheus: a number for a scalar,
// and a list of numbers for a vector or a matrix.
func samples(request Request) (Result, error) {
	var got response
	if err := json.Unmarshal(request.Body, &got); err != nil {
		return Result{}, fmt.Errorf("bad_response: %w", err)
	}
	if got.Status == "error" {
		return Result{}, fmt.Errorf("%s: %s", got.ErrorType, got.Error)
	}
	result := Result{Warnings: got.Warnings}
	var err error
	switch got.Data.ResultType {
	case "scalar":
		var one sample
		if err := json.Unmarshal(got.Data.Result, &one); err != nil {
			return Result{}, fmt.Errorf("bad_response: %w", err)
		}
		result.Value = formatNumber(float64(one))
		result.Phase, err = phaseOf(float64(one), request)
	case "vector", "matrix":
		var all []series
		if err := json.Unmarshal(got.Data.Result, &all); err != nil {
			return Result{}, fmt.Errorf("bad_response: %w", err)
		}
		numbers := []float64{}
		for _, one := range all {
			if one.Value != nil {
				numbers = append(numbers, float64(*one.Value))
			}
			for _, value := range one.Values {
				numbers = append(numbers, float64(value))
			}
		}
		result.Value = formatNumbers(numbers)
		result.Phase, err = phaseOf(numbers, request)
	default:
		err = errors.New("Prometheus metric type not supported")
	}
	return result, err
}

func formatNumber(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

func formatNumbers(values []float64) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = formatNumber(value)
	}
	return "[" + strings.Join(texts, ",") + "]"
}
