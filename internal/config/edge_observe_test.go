package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// observedOptions is the part of the list of options that is declared in
// edge_observe.go.
func observedOptions() map[string]string {
	return map[string]string{
		"accessLog":                                `switch "false"`,
		"accessLog.filePath":                       `string ""`,
		"accessLog.format":                         `string "common"`,
		"accessLog.bufferingSize":                  `number "10000"`,
		"accessLog.flushInterval":                  `duration "250ms"`,
		"accessLog.filters.statusCodes":            `list ""`,
		"accessLog.filters.retryAttempts":          `bool "false"`,
		"accessLog.filters.minDuration":            `duration "0s"`,
		"accessLog.fields.defaultMode":             `string "keep"`,
		"accessLog.fields.names.<name>":            `string ""`,
		"accessLog.fields.headers.defaultMode":     `string "drop"`,
		"accessLog.fields.headers.names.<name>":    `string ""`,
		"tracing":                                  `switch "false"`,
		"tracing.serviceName":                      `string "slipway"`,
		"tracing.resourceAttributes":               `list ""`,
		"tracing.sampleRate":                       `string "1"`,
		"tracing.continueFrom":                     `string "trusted"`,
		"tracing.otlp.http.endpoint":               `string "https://localhost:4318/v1/traces"`,
		"tracing.otlp.http.headers":                `secret ""`,
		"tracing.otlp.http.tls.ca":                 `string ""`,
		"tracing.otlp.http.tls.cert":               `string ""`,
		"tracing.otlp.http.tls.key":                `string ""`,
		"tracing.otlp.http.tls.insecureSkipVerify": `bool "false"`,
		"lastGood.dir":                             `string ""`,
		"traffic.address":                          `string ""`,
		"traffic.secretFile":                       `string ""`,
	}
}

// TestValidateObserved: what is wrong with the access log and with tracing.
func TestValidateObserved(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(a *config.AccessLog, t *config.Tracing)
		want   string // one line for each finding; none when it is valid
	}{
		{"defaults", func(*config.AccessLog, *config.Tracing) {}, ""},
		{"access log", func(a *config.AccessLog, _ *config.Tracing) {
			a.Format, a.BufferingSize, a.FlushInterval, a.Filters.MinDuration = "clf", 0, 0, -1
			a.Filters.StatusCodes = []string{"200", "500-599", "0", "5xx", "300-200", "600", ""}
		}, `accessLog.format is "clf": choose one of common, genericCLF, json` + "\n" +
			`accessLog.bufferingSize is 0: choose a number from 1 to 1000000` + "\n" +
			`accessLog.flushInterval is 0s: it has to be above 0` + "\n" +
			`accessLog.filters.minDuration is -1ns: it cannot be negative` + "\n" +
			`accessLog.filters.statusCodes has "5xx": write a status such as 404 or a range such as 500-599` + "\n" +
			`accessLog.filters.statusCodes has "300-200": write a status such as 404 or a range such as 500-599` + "\n" +
			`accessLog.filters.statusCodes has "600": write a status such as 404 or a range such as 500-599` + "\n" +
			`accessLog.filters.statusCodes has "": write a status such as 404 or a range such as 500-599`},
		{"modes", func(a *config.AccessLog, _ *config.Tracing) {
			a.Fields.DefaultMode = "redact"
			a.Fields.Names = map[string]string{"duration": "redact", "a": "keep"}
			a.Fields.Headers.DefaultMode = "hide"
			a.Fields.Headers.Names = map[string]string{"user-agent": "redact", "x": ""}
		}, `accessLog.fields.defaultMode is "redact": choose one of keep, drop` + "\n" +
			`accessLog.fields.names.duration is "redact": choose one of keep, drop` + "\n" +
			`accessLog.fields.headers.defaultMode is "hide": choose one of keep, drop, redact` + "\n" +
			`accessLog.fields.headers.names.x is "": choose one of keep, drop, redact`},
		{"tracing", func(_ *config.AccessLog, t *config.Tracing) {
			t.ServiceName, t.SampleRate, t.ContinueFrom = "", "1.5", "all"
			t.ResourceAttributes = []string{"a=b", "=", "c"}
		}, `tracing.serviceName is missing: name this edge, such as slipway` + "\n" +
			`tracing.resourceAttributes has "=": write it as name=value` + "\n" +
			`tracing.resourceAttributes has "c": write it as name=value` + "\n" +
			`tracing.sampleRate is "1.5": choose a number from 0 to 1` + "\n" +
			`tracing.continueFrom is "all": choose one of trusted, everyone, nobody`},
		{"no number", func(_ *config.AccessLog, t *config.Tracing) { t.SampleRate = "NaN" }, `tracing.sampleRate is "NaN": choose a number from 0 to 1`},
		{"collector", func(_ *config.AccessLog, t *config.Tracing) { t.OTLP.HTTP.Endpoint = "collector:4318" },
			`tracing.otlp.http.endpoint is not a URL such as https://collector.example.com:4318`},
		{"password", func(_ *config.AccessLog, t *config.Tracing) { t.OTLP.HTTP.Endpoint = "https://me:hidden@c" },
			`tracing.otlp.http.endpoint has a user name or password in it: take it out and use tracing.otlp.http.headers`},
		{"query", func(_ *config.AccessLog, t *config.Tracing) { t.OTLP.HTTP.Endpoint = "https://c?key=hidden" },
			`tracing.otlp.http.endpoint has a part after ? or #: take it out`},
		{"TLS for nothing", func(_ *config.AccessLog, t *config.Tracing) {
			t.OTLP.HTTP.Endpoint, t.OTLP.HTTP.TLS.Cert = "http://c", "c.pem"
		}, `tracing.otlp.http.tls is set, but the endpoint is not encrypted: let it start with https://` + "\n" +
			`tracing.otlp.http.tls has one of cert and key: give both or neither`},
		{"headers", func(_ *config.AccessLog, t *config.Tracing) { t.OTLP.HTTP.Headers = secret.New("a=hidden,hidden") },
			`tracing.otlp.http.headers has something that is not of the form name=value`},
		{"redacted headers", func(_ *config.AccessLog, t *config.Tracing) { t.OTLP.HTTP.Headers = secret.New("[redacted]") },
			`tracing.otlp.http.headers is the text that stands for hidden headers in printed options: set the headers themselves`},
	} {
		edge := defaults()
		edge.AccessLog, edge.Tracing = &config.AccessLog{}, &config.Tracing{}
		edge.AccessLog.SetDefaults()
		edge.Tracing.SetDefaults()
		c.change(edge.AccessLog, edge.Tracing)
		got := ""
		if err := edge.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestObservedSources: the names of fields and headers come from every source,
// in any case, and the headers of the collector stay hidden.
func TestObservedSources(t *testing.T) {
	want := map[string]string{"clientusername": "drop", "requestquery": "drop"}
	file := filepath.Join(t.TempDir(), "edge.yaml")
	const text = `
accessLog:
  filters: {statusCodes: ["500-599"], minDuration: 100ms}
  fields:
    names: {ClientUsername: drop, RequestQuery: drop}
    headers:
      names:
        User-Agent: keep
tracing:
  sampleRate: 0.25
  resourceAttributes: [deployment.environment.name=test]
  otlp:
    http:
      headers: X-Api-Key=hidden
`
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	edge := mustLoad(t, "--configfile="+file)
	if !maps.Equal(edge.AccessLog.Fields.Names, want) || edge.AccessLog.Fields.Headers.Names["user-agent"] != "keep" || edge.AccessLog.Format != "common" {
		t.Errorf("from a file: %+v", edge.AccessLog)
	}
	if edge.Tracing.Rate() != 0.25 || edge.Tracing.OTLP.HTTP.Headers.Reveal() != "X-Api-Key=hidden" {
		t.Errorf("from a file: %+v", edge.Tracing)
	}
	printed, err := edge.YAML()
	if err != nil || strings.Contains(string(printed), "hidden") {
		t.Errorf("%s, %v", printed, err)
	}
	edge = mustLoad(t, "--accesslog.fields.names.CLIENTUSERNAME=drop --accessLog.fields.names.RequestQuery=drop")
	if !maps.Equal(edge.AccessLog.Fields.Names, want) {
		t.Errorf("from flags: %+v", edge.AccessLog)
	}
	if edge = mustLoad(t, "--accesslog --tracing"); edge.AccessLog.Format != "common" || edge.Tracing.ServiceName != "slipway" {
		t.Errorf("turned on: %+v %+v", edge.AccessLog, edge.Tracing)
	}
	if edge = mustLoad(t, ""); edge.AccessLog != nil || edge.Tracing != nil || edge.LastGood.Dir != "" {
		t.Errorf("off: %+v", edge)
	}
	if _, err := load(t, "--accesslog.fields.headers.names.User_Agent=keep"); err == nil || !strings.Contains(err.Error(), "is not valid") {
		t.Errorf("a name that the environment cannot spell: %v", err)
	}
}
