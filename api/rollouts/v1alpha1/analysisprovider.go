package v1alpha1

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EdgePlugin is the name of the plugin that stands for the counts of our edges.
const EdgePlugin = "slipway.dev/edge"

// MetricProvider is where a metric comes from; one field is set. Those that are not
// supported are kept as they are, because a run is a copy of its templates.
type MetricProvider struct {
	Prometheus *PrometheusMetric          `json:"prometheus,omitempty"`
	Web        *WebMetric                 `json:"web,omitempty"`
	Job        *JobMetric                 `json:"job,omitempty"`
	Plugin     map[string]json.RawMessage `json:"plugin,omitempty"`

	Kayenta    json.RawMessage `json:"kayenta,omitempty"`
	Datadog    json.RawMessage `json:"datadog,omitempty"`
	Wavefront  json.RawMessage `json:"wavefront,omitempty"`
	NewRelic   json.RawMessage `json:"newRelic,omitempty"`
	CloudWatch json.RawMessage `json:"cloudWatch,omitempty"`
	Graphite   json.RawMessage `json:"graphite,omitempty"`
	Influxdb   json.RawMessage `json:"influxdb,omitempty"`
	SkyWalking json.RawMessage `json:"skywalking,omitempty"`
}

// PrometheusMetric is a query of Prometheus.
type PrometheusMetric struct {
	Address        string         `json:"address,omitempty"`
	Query          string         `json:"query,omitempty"`
	Authentication Authentication `json:"authentication,omitzero"`
	// Timeout is in seconds.
	Timeout    *int64                    `json:"timeout,omitempty"`
	Insecure   bool                      `json:"insecure,omitempty"`
	Headers    []WebMetricHeader         `json:"headers,omitempty"`
	RangeQuery *PrometheusRangeQueryArgs `json:"rangeQuery,omitempty"`
}

// PrometheusRangeQueryArgs makes the query one over a range of time. Start and End are
// expressions, such as now() - duration("1h").
type PrometheusRangeQueryArgs struct {
	Start string         `json:"start,omitempty"`
	End   string         `json:"end,omitempty"`
	Step  DurationString `json:"step,omitempty"`
}

// Authentication is how requests are authenticated, beside headers.
type Authentication struct {
	Sigv4  Sigv4Config  `json:"sigv4,omitzero"`
	OAuth2 OAuth2Config `json:"oauth2,omitzero"`
}

// OAuth2Config gets a token with the credentials of a client.
type OAuth2Config struct {
	TokenURL     string   `json:"tokenUrl,omitempty"`
	ClientID     string   `json:"clientId,omitempty"`
	ClientSecret string   `json:"clientSecret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
}

// Sigv4Config signs requests for AWS.
type Sigv4Config struct {
	Region  string `json:"region,omitempty"`
	Profile string `json:"profile,omitempty"`
	RoleARN string `json:"roleArn,omitempty"`
}

// WebMetric is an HTTP request whose response has the value.
type WebMetric struct {
	Method         string            `json:"method,omitempty"`
	URL            string            `json:"url"`
	Headers        []WebMetricHeader `json:"headers,omitempty"`
	Body           string            `json:"body,omitempty"`
	TimeoutSeconds int64             `json:"timeoutSeconds,omitempty"`
	JSONPath       string            `json:"jsonPath,omitempty"`
	Insecure       bool              `json:"insecure,omitempty"`
	JSONBody       json.RawMessage   `json:"jsonBody,omitempty"`
	Authentication Authentication    `json:"authentication,omitzero"`
}

// WebMetricHeader is a header of a request.
type WebMetricHeader struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// JobMetric is a Job whose end is the result.
type JobMetric struct {
	Metadata metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec     batchv1.JobSpec   `json:"spec"`
}

// EdgeMetric is the content of the plugin slipway.dev/edge: the requests that our edges
// sent to a Service.
type EdgeMetric struct {
	// Service is a Service in the namespace of the run.
	Service string `json:"service,omitempty"`
	// Metric is errorRate, latency or requests.
	Metric string `json:"metric"`
	// Quantile is that of latency, such as 0.95.
	Quantile float64 `json:"quantile,omitempty"`
	// Window is how long requests are counted for a measurement; 30s without it.
	Window DurationString `json:"window,omitempty"`
	// MinRequests is how many requests a measurement needs. With fewer it is
	// inconclusive, for errorRate and latency.
	MinRequests uint64 `json:"minRequests,omitempty"`
}
