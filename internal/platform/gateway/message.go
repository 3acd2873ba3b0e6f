package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// maxChange bounds the request of a change, which is read before it is
	// forwarded. Runtimes accept no larger message.
	maxChange = 1<<20 + 64<<10
	// maxRecorded bounds the recorded response of a change.
	maxRecorded = 1 << 20
)

// decoder decodes the messages of a unary procedure with Connect's own handler
// and client. So the platform reads a message as the runtime does, in every
// protocol, encoding and compression.
type decoder struct {
	output  protoreflect.MessageDescriptor
	handler *connect.Handler
}

// decoders has the procedures of runtimes that are audited.
var decoders = sync.OnceValue(func() map[string]*decoder {
	all := map[string]*decoder{}
	for _, file := range []protoreflect.FileDescriptor{
		runtimev1.File_slipway_runtime_v1_application_proto, runtimev1.File_slipway_runtime_v1_promotion_proto, runtimev1.File_slipway_runtime_v1_release_proto,
		runtimev1.File_slipway_runtime_v1_runtime_proto, runtimev1.File_slipway_runtime_v1_traffic_proto,
	} {
		for s := range file.Services().Len() {
			methods := file.Services().Get(s).Methods()
			for m := range methods.Len() {
				method := methods.Get(m)
				procedure := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
				if rule, _ := permission.Of(procedure); !rule.Read && !rule.Quiet {
					all[procedure] = newDecoder(procedure, method.Input(), method.Output())
				}
			}
		}
	}
	for _, one := range argocd.Procedures() {
		if !one.Rule.Read || one.Name == argoGet {
			all[one.Name] = newDecoder(one.Name, one.NewRequest().Descriptor(), one.NewResponse().Descriptor())
		}
	}
	return all
})

// messageKey is the context key of the decoded message.
type messageKey struct{}

func newDecoder(procedure string, input, output protoreflect.MessageDescriptor) *decoder {
	capture := func(ctx context.Context, request *connect.Request[dynamicpb.Message]) (*connect.Response[dynamicpb.Message], error) {
		*ctx.Value(messageKey{}).(*proto.Message) = request.Msg
		return connect.NewResponse(dynamicpb.NewMessage(output)), nil
	}
	initialize := func(_ connect.Spec, message any) error {
		*message.(*dynamicpb.Message) = *dynamicpb.NewMessage(input)
		return nil
	}
	return &decoder{output, connect.NewUnaryHandler(procedure, capture, connect.WithRequestInitializer(initialize), connect.WithReadMaxBytes(maxChange))}
}

// request decodes the message of a request whose body is given; nil if it is
// not one of the procedure.
func (d *decoder) request(r *http.Request, body []byte) proto.Message {
	var message proto.Message
	r = r.Clone(context.WithValue(r.Context(), messageKey{}, &message))
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.handler.ServeHTTP(discardResponse{}, r)
	return message
}

// response decodes a response. The error has the code of the call; one that is
// not of the runtime means that the response is incomplete.
func (d *decoder) response(response *http.Response) (proto.Message, error) {
	options := []connect.ClientOption{
		connect.WithReadMaxBytes(maxRecorded),
		connect.WithResponseInitializer(func(_ connect.Spec, message any) error {
			*message.(*dynamicpb.Message) = *dynamicpb.NewMessage(d.output)
			return nil
		}),
	}
	content := response.Request.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(content, "application/grpc-web"):
		options = append(options, connect.WithGRPCWeb())
	case strings.HasPrefix(content, "application/grpc"):
		options = append(options, connect.WithGRPC())
	}
	if strings.HasSuffix(content, "json") {
		options = append(options, connect.WithProtoJSON())
	}
	client := connect.NewClient[dynamicpb.Message, dynamicpb.Message](recordedResponse{response}, "http://runtime", options...)
	decoded, err := client.CallUnary(context.Background(), connect.NewRequest(dynamicpb.NewMessage(d.output)))
	if err != nil {
		return nil, err
	}
	return decoded.Msg, nil
}

// recordedResponse is an HTTP client that returns a response that it has.
type recordedResponse struct{ response *http.Response }

// Do returns the response.
func (r recordedResponse) Do(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_, _ = io.Copy(io.Discard, request.Body) // the client waits until it is read
		_ = request.Body.Close()
	}
	return r.response, nil
}

// discardResponse is a response writer for a handler whose response is not
// needed.
type discardResponse struct{}

func (discardResponse) Header() http.Header         { return http.Header{} }
func (discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (discardResponse) WriteHeader(int)             {}

// Flush implements http.Flusher, which gRPC needs.
func (discardResponse) Flush() {}

// recording copies the response of a runtime while it is forwarded.
type recording struct {
	io.ReadCloser
	response *http.Response
	header   http.Header
	body     bytes.Buffer
	ended    bool
}

// record replaces the body of a response with one that is copied. Headers are
// cloned, because the gateway changes them afterwards.
func record(response *http.Response) *recording {
	r := &recording{ReadCloser: response.Body, response: response, header: response.Header.Clone()}
	response.Body = r
	return r
}

// Read copies what the proxy reads.
func (r *recording) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if room := maxRecorded + 1 - r.body.Len(); room > 0 {
		_, _ = r.body.Write(p[:min(n, room)])
	}
	r.ended = r.ended || err == io.EOF
	return n, err
}

// complete returns a copy of the response, and whether the runtime sent all of
// it. The transport sets the trailers at the end of the body.
func (r *recording) complete() (*http.Response, bool) {
	return &http.Response{
		Status: r.response.Status, StatusCode: r.response.StatusCode, ProtoMajor: r.response.ProtoMajor, Request: r.response.Request,
		Header: r.header, Trailer: r.response.Trailer, Body: io.NopCloser(&r.body), ContentLength: int64(r.body.Len()),
	}, r.ended
}
