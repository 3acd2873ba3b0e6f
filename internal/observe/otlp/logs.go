package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/backoff"
)

const (
	// logQueue bounds the records that wait for the collector; then the oldest
	// are dropped.
	logQueue = 10_000
	// logBatch bounds the records of one request.
	logBatch = 500
	// maxResponse bounds the response that is read of a collector.
	maxResponse = 64 << 10
	// logPeriod is the least time between two messages about a collector that
	// does not accept records.
	logPeriod = time.Minute
)

// Severities of log records, in OpenTelemetry's numbers.
const (
	SeverityInfo = int(logs.SeverityNumber_SEVERITY_NUMBER_INFO)
	SeverityWarn = int(logs.SeverityNumber_SEVERITY_NUMBER_WARN)
)

// Record is one log record. Attributes are pairs of name and value; those
// without a value are left out.
type Record struct {
	At         time.Time
	Severity   int
	Event      string
	Body       string
	Attributes [][2]string
}

// LogOptions are the settings of an exporter.
type LogOptions struct {
	Collector
	// ServiceName and Version are attributes of the resource.
	ServiceName, Version string
	Log                  *slog.Logger
}

// Logs exports log records. It keeps records while the collector does not respond
// and sends them again, so that a restart of the collector loses none. It is safe
// for concurrent use; mu guards queue.
type Logs struct {
	options    LogOptions
	collector  Connection
	sent, lost atomic.Uint64
	wake       chan struct{}
	closing    chan struct{}
	ended      chan struct{}
	// life ends with cut, which cancels the request that runs.
	life context.Context
	cut  context.CancelFunc

	mu    sync.Mutex
	queue []*logs.LogRecord
}

// NewLogs returns an exporter and starts it. The collector need not be reachable.
func NewLogs(options LogOptions) (*Logs, error) {
	collector, err := options.Connect("/v1/logs")
	if err != nil {
		return nil, err
	}
	l := &Logs{options: options, collector: collector, wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	l.life, l.cut = context.WithCancel(context.Background())
	go l.run()
	return l, nil
}

// Emit queues a record. It does not block.
func (l *Logs) Emit(record Record) {
	converted := &logs.LogRecord{
		TimeUnixNano: uint64(record.At.UnixNano()), ObservedTimeUnixNano: uint64(time.Now().UnixNano()),
		SeverityNumber: logs.SeverityNumber(record.Severity), EventName: record.Event, Body: textValue(record.Body),
		Attributes: attributes(record.Attributes),
	}
	l.mu.Lock()
	l.queue = append(l.queue, converted)
	if more := len(l.queue) - logQueue; more > 0 {
		l.queue = l.queue[more:]
		l.lost.Add(uint64(more))
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // a pending signal is enough
	}
}

// Stats returns the numbers of records that the collector accepted, and of those
// that it refused or that did not fit into the queue.
func (l *Logs) Stats() (sent, lost uint64) { return l.sent.Load(), l.lost.Load() }

// Close sends the queue and ends the exporter. Records that are not sent when ctx
// is done, or that the collector does not accept then, are lost, which is an
// error. It must be called once, after the last Emit.
func (l *Logs) Close(ctx context.Context) error {
	_, before := l.Stats()
	close(l.closing)
	stop := context.AfterFunc(ctx, l.cut)
	<-l.ended
	stop()
	l.cut()
	l.collector.Client.CloseIdleConnections()
	if _, after := l.Stats(); after > before {
		return fmt.Errorf("the collector did not accept the last %d log records", after-before)
	}
	return nil
}

// run sends batches until Close, one at a time, so that records stay in order.
func (l *Logs) run() {
	defer close(l.ended)
	retries := backoff.Retries{Policy: backoff.Policy{First: time.Second, Longest: 30 * time.Second, JitterDown: 0.5}}
	var batch []*logs.LogRecord
	loggedAt := time.Time{}
	for {
		if len(batch) == 0 {
			batch = l.take(logBatch)
		}
		if len(batch) == 0 {
			select {
			case <-l.wake:
			case <-l.closing:
				// A record that was queued before Close is taken still.
				if batch = l.take(logBatch); len(batch) == 0 {
					return
				}
			}
			continue
		}
		err := l.send(batch)
		if err == nil {
			batch = nil
			retries.Reset()
			continue
		}
		if now := time.Now(); now.Sub(loggedAt) >= logPeriod {
			loggedAt = now
			l.options.Log.Warn("export of log records failed; retrying", "records", len(batch), "error", err)
		}
		select {
		case <-l.closing:
			l.lost.Add(uint64(len(batch) + len(l.take(logQueue))))
			return
		case <-time.After(retries.Next()):
		}
	}
}

// take removes the oldest records from the queue.
func (l *Logs) take(most int) []*logs.LogRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := min(len(l.queue), most)
	taken := l.queue[:count:count]
	l.queue = l.queue[count:]
	return taken
}

// send sends a batch. An error means that it should be sent again; a batch that
// the collector will never accept is lost without one.
func (l *Logs) send(batch []*logs.LogRecord) error {
	status, err := l.post(batch)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK:
		l.sent.Add(uint64(len(batch)))
	// The statuses that OTLP declares as retryable.
	case status == http.StatusTooManyRequests || status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		return fmt.Errorf("the collector responded with %s", http.StatusText(status))
	default:
		l.options.Log.Error("collector refused log records", "records", len(batch), "status", status)
		l.lost.Add(uint64(len(batch)))
	}
	return nil
}

// post sends one request and returns its status.
func (l *Logs) post(batch []*logs.LogRecord) (int, error) {
	data, err := proto.Marshal(&logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: attributes([][2]string{{"service.name", l.options.ServiceName}, {"service.version", l.options.Version}})},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "slipway.dev/slipway", Version: l.options.Version}, LogRecords: batch}},
	}}})
	if err != nil {
		return 0, err
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write(data) // a buffer accepts everything
	_ = writer.Close()
	ctx, cancel := context.WithTimeout(l.life, Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.collector.URL, &packed)
	if err != nil {
		return 0, err
	}
	for name, value := range l.collector.Headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "gzip")
	response, err := l.collector.Client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxResponse)) // so that the connection is used again
	return response.StatusCode, nil
}

// attributes converts pairs.
func attributes(pairs [][2]string) []*common.KeyValue {
	var converted []*common.KeyValue
	for _, pair := range pairs {
		if pair[1] != "" {
			converted = append(converted, &common.KeyValue{Key: pair[0], Value: textValue(pair[1])})
		}
	}
	return converted
}

func textValue(text string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}
}
