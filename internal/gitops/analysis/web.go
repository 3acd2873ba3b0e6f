package analysis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/analysis/evaluate"
)

// webTimeout is the time of a request without one.
const webTimeout = 10 * time.Second

// webProvider takes the value from the response to an HTTP request.
type webProvider struct{ *providers }

func (p *webProvider) measure(ctx context.Context, run *v1alpha1.AnalysisRun, metric *v1alpha1.Metric) v1alpha1.Measurement {
	measurement := p.begun()
	web := metric.Provider.Web
	ctx, cancel := context.WithTimeout(ctx, timeout(web.TimeoutSeconds, webTimeout))
	defer cancel()
	request, err := newWebRequest(ctx, web)
	if err != nil {
		return p.failed(measurement, err)
	}
	client, err := p.clients.of(ctx, web.Insecure, web.Authentication)
	if err != nil {
		return p.failed(measurement, err)
	}
	status, body, err := fetch(client, request)
	switch {
	case err != nil:
		return p.failed(measurement, err)
	case status < 200 || status >= 300:
		return p.failed(measurement, fmt.Errorf("received non 2xx response code: %v", status))
	}
	return p.evaluated(ctx, run, measurement, evaluate.Request{
		Form: evaluate.JSON, Body: body, JSONPath: web.JSONPath,
		SuccessCondition: metric.SuccessCondition, FailureCondition: metric.FailureCondition,
	})
}

// newWebRequest returns the request of a metric.
func newWebRequest(ctx context.Context, web *v1alpha1.WebMetric) (*http.Request, error) {
	method := web.Method
	switch method {
	case "":
		method = http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut:
	default:
		return nil, fmt.Errorf("the method %q is not supported: use GET, POST or PUT", method)
	}
	hasJSON := len(web.JSONBody) > 0 && string(web.JSONBody) != "null"
	var body io.Reader
	switch {
	case web.Body != "" && hasJSON:
		return nil, errors.New("use either Body or JSONBody; both cannot exists for WebMetric payload")
	case (web.Body != "" || hasJSON) && method == http.MethodGet:
		return nil, errors.New("Body/JSONBody can only be used with POST or PUT WebMetric Method types")
	case web.Body != "":
		body = strings.NewReader(web.Body)
	case hasJSON:
		body = bytes.NewReader(web.JSONBody)
	}
	request, err := http.NewRequestWithContext(ctx, method, web.URL, body)
	if err != nil {
		return nil, err
	}
	setHeaders(request, web.Headers)
	if hasJSON {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}
