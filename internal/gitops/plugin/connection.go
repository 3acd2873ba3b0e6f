package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/gitops/render/job"
)

// service is the name of the protocol's service.
const service = "plugin.ConfigManagementPluginService"

// chunkBytes is how much of an archive is sent in a message.
const chunkBytes = 32 << 10

// connection is one to a plugin.
type connection struct {
	http *http.Client
}

// connect prepares a connection to a plugin, which is made by the first call.
func (p *Plugins) connect(name string) (*connection, error) {
	socket, err := p.socket(name)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols, MaxResponseHeaderBytes: 1 << 20,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
	return &connection{http: &http.Client{Transport: transport}}, nil
}

// close ends the connection.
func (c *connection) close() { c.http.CloseIdleConnections() }

// client calls a method.
func (c *connection) client(method string) *connect.Client[request, response] {
	return connect.NewClient[request, response](c.http, "http://plugin/"+service+"/"+method,
		connect.WithGRPC(), connect.WithCodec(codec{}), connect.WithReadMaxBytes(MaxOutputBytes))
}

// configuration is what the plugin is configured with.
func (c *connection) configuration(ctx context.Context) (*response, error) {
	got, err := c.client("CheckPluginConfiguration").CallUnary(ctx, connect.NewRequest(&request{}))
	if err != nil {
		return nil, convert(err)
	}
	return got.Msg, nil
}

// send calls a method that takes the files of a source.
func (c *connection) send(ctx context.Context, method string, call *Call, sent *archive) (*response, error) {
	stream := c.client(method).CallClientStream(ctx)
	err := stream.Send(&request{metadata: &metadata{
		name: call.folderName(), folder: call.folder, checksum: sent.checksum, size: sent.size, environment: call.environment,
	}})
	if err == nil {
		chunks := bufio.NewWriterSize(chunkWriter{stream}, chunkBytes)
		if err = sent.write(chunks); err == nil {
			err = chunks.Flush()
		}
	}
	// A plugin that responds early ends the stream; its response has the reason.
	if err != nil && !errors.Is(err, io.EOF) {
		_, _ = stream.CloseAndReceive()
		return nil, convert(err)
	}
	got, err := stream.CloseAndReceive()
	if err != nil {
		return nil, convert(err)
	}
	return got.Msg, nil
}

// chunkWriter sends what is written as messages.
type chunkWriter struct {
	stream *connect.ClientStreamForClient[request, response]
}

// Write implements io.Writer.
func (w chunkWriter) Write(text []byte) (int, error) {
	if err := w.stream.Send(&request{chunk: text}); err != nil {
		return 0, err
	}
	return len(text), nil
}

// convert makes an Error of one of the protocol. Others, such as refusals of
// files, stay as they are.
func convert(err error) error {
	found, ok := errors.AsType[*connect.Error](err)
	switch {
	case !ok:
		return err
	case connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return context.DeadlineExceeded
	case errors.Is(err, fs.ErrPermission):
		return &Error{Err: err, Message: fmt.Sprintf("its socket belongs to another user: run its container as user %d, as the agent, and leave out runAsUser", os.Getuid())}
	case connect.IsWireError(err):
		return &Error{Err: err, Message: "it failed: " + job.Shorten(found.Message())}
	case connect.CodeOf(err) == connect.CodeResourceExhausted:
		return failure("its output is larger than %d bytes: split the application", MaxOutputBytes)
	}
	return &Error{Err: err, Message: "it cannot be called: " + job.Shorten(found.Message())}
}
