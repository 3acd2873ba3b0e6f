// Package otlptest is an OTLP collector of log records for tests, on a real
// socket.
package otlptest

import (
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver stores the log records that it gets.
type Receiver struct {
	*httptest.Server

	mu      sync.Mutex
	status  int
	records []map[string]string
	headers []http.Header
}

// New starts a receiver; an empty address is a free port of loopback.
func New(t testing.TB, address string) *Receiver {
	t.Helper()
	r := &Receiver{status: http.StatusOK}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.receive))
	if address != "" {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Server.Listener.Close()
		r.Server.Listener = listener
	}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

// Respond sets the status of the responses; records are stored with 200 only.
func (r *Receiver) Respond(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// Records returns the attributes of all records. The names of the other fields
// begin with a dot: .body, .event and .severity, and .service of the resource.
func (r *Receiver) Records() []map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]map[string]string(nil), r.records...)
}

// Headers returns the headers of all requests.
func (r *Receiver) Headers() []http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]http.Header(nil), r.headers...)
}

func (r *Receiver) receive(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = append(r.headers, request.Header.Clone())
	if r.status != http.StatusOK {
		w.WriteHeader(r.status)
		return
	}
	message, err := decode(request)
	if err != nil || request.URL.Path != "/v1/logs" || request.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not an export of logs", http.StatusBadRequest)
		return
	}
	for _, of := range message.GetResourceLogs() {
		service := texts(of.GetResource().GetAttributes())["service.name"]
		for _, scope := range of.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				fields := texts(record.GetAttributes())
				fields[".body"], fields[".event"], fields[".severity"] = record.GetBody().GetStringValue(), record.GetEventName(), record.GetSeverityNumber().String()
				fields[".service"] = service
				r.records = append(r.records, fields)
			}
		}
	}
}

func decode(request *http.Request) (*collector.ExportLogsServiceRequest, error) {
	body, err := gzip.NewReader(request.Body)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	message := &collector.ExportLogsServiceRequest{}
	return message, proto.Unmarshal(text, message)
}

func texts(attributes []*common.KeyValue) map[string]string {
	found := map[string]string{}
	for _, attribute := range attributes {
		found[attribute.GetKey()] = attribute.GetValue().GetStringValue()
	}
	return found
}
