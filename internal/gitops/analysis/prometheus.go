package analysis

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
)

const (
	// prometheusTimeout is the time of a query without one.
	prometheusTimeout = 30 * time.Second
	// resolvedQuery is the key of the query in the metadata of a result.
	resolvedQuery = "ResolvedPrometheusQuery"
)

// prometheusProvider takes the value from a query of Prometheus.
type prometheusProvider struct{ *providers }

func (p *prometheusProvider) measure(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric) v1alpha1.Measurement {
	measurement := p.begun()
	query := metric.Provider.Prometheus
	if err := checkPrometheus(query); err != nil {
		return p.failed(measurement, err)
	}
	limit := prometheusTimeout
	if query.Timeout != nil {
		limit = timeout(*query.Timeout, prometheusTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := p.query(ctx, run, query)
	if err != nil {
		return p.failed(measurement, err)
	}
	return p.evaluated(ctx, run, measurement, evaluate.Request{
		Form: evaluate.Prometheus, Body: body, SuccessCondition: metric.SuccessCondition, FailureCondition: metric.FailureCondition,
	})
}

// checkPrometheus refuses settings with which no query can be sent.
func checkPrometheus(query *v1alpha1.PrometheusMetric) error {
	if query.Address == "" {
		return errors.New("prometheus address is not configured")
	}
	if base, err := url.Parse(query.Address); err != nil || base.Scheme == "" || base.Host == "" {
		return errors.New("prometheus address is not is url format")
	}
	if query.Timeout != nil && *query.Timeout < 0 {
		return errors.New("prometheus timeout should not be negative")
	}
	return nil
}

// query sends the query and returns a response that may be an error of Prometheus.
func (p *prometheusProvider) query(ctx context.Context, run *v1alpha1.AnalysisRun, query *v1alpha1.PrometheusMetric) ([]byte, error) {
	base, err := url.Parse(query.Address)
	if err != nil {
		return nil, err
	}
	path, form := "/api/v1/query", url.Values{"query": {query.Query}}
	if query.RangeQuery == nil {
		form.Set("time", formatTime(p.now()))
	} else {
		path = "/api/v1/query_range"
		if err := p.setRange(ctx, run, query.RangeQuery, form); err != nil {
			return nil, err
		}
	}
	target := *base
	target.Path = strings.TrimSuffix(base.Path, "/") + path
	client, err := p.clients.of(ctx, query.Insecure, query.Authentication)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	setHeaders(request, query.Headers)
	status, body, err := fetch(client, request)
	if err == nil && (status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented) {
		// Servers with the same API that have no POST.
		target.RawQuery = form.Encode()
		if request, err = http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil); err != nil {
			return nil, err
		}
		setHeaders(request, query.Headers)
		status, body, err = fetch(client, request)
	}
	if err != nil {
		return nil, err
	}
	return body, statusError(status)
}

// statusError is the error of a status; nil if the body has the result or the error.
func statusError(status int) error {
	switch {
	case status/100 == 2, status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		return nil
	case status/100 == 4:
		return fmt.Errorf("client_error: client error: %d", status)
	case status/100 == 5:
		return fmt.Errorf("server_error: server error: %d", status)
	}
	return fmt.Errorf("bad_response: bad response code %d", status)
}

// setRange adds the range of time of a query.
func (p *prometheusProvider) setRange(ctx context.Context, run *v1alpha1.AnalysisRun, given *v1alpha1.PrometheusRangeQueryArgs, form url.Values) error {
	step, err := given.Step.Duration()
	if err != nil {
		return fmt.Errorf("failed to parse rangeQuery.step as duration: %w", err)
	}
	for name, expression := range map[string]string{"start": given.Start, "end": given.End} {
		result, err := p.evaluator.Evaluate(ctx, run.Namespace, evaluate.Request{Form: evaluate.Times, Times: []string{expression}})
		if err == nil && result.Message != "" {
			err = errors.New(result.Message)
		}
		if err != nil {
			return fmt.Errorf("failed to parse rangeQuery.%s as time: %w", name, err)
		}
		form.Set(name, formatTime(result.Times[0]))
	}
	form.Set("step", strconv.FormatFloat(step.Seconds(), 'f', -1, 64))
	return nil
}

// formatTime is a time as Prometheus reads it.
func formatTime(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixNano())/1e9, 'f', 3, 64)
}
