package validate_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/install/validate"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	adminEmail = "admin@example.com"
	userEmail  = "user@example.com"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// world is a cluster, and a platform with an admin, a user and a runtime named
// taken.
type world struct {
	cluster *kubetest.Cluster
	live    *validate.Live

	url, account string
	// keys are by name: admin, register, read, user.
	keys map[string]string
}

// newWorld starts both.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{cluster: kubetest.Shared(t), keys: map[string]string{}}
	w.live = &validate.Live{Cluster: w.cluster.Cluster, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
	dir := w.startPlatform(t)
	for name, want := range map[string][2]string{"admin": {adminEmail, "all"}, "register": {adminEmail, "runtime-register"}, "read": {adminEmail, "read"}} {
		w.keys[name] = w.key(t, dir, want[0], want[1])
	}
	accounts := platformv1connect.NewAccountServiceClient(http.DefaultClient, w.url)
	_, err := accounts.CreateUser(t.Context(), authorised(w, &platformv1.CreateUserRequest{Email: userEmail, Name: "User", Role: platformv1.Role_ROLE_OPERATOR}))
	must.Do(t, err)
	w.keys["user"] = w.key(t, dir, userEmail, "all")
	me, err := platformv1connect.NewAuthServiceClient(http.DefaultClient, w.url).Me(t.Context(), authorised(w, &platformv1.MeRequest{}))
	must.Do(t, err)
	w.account = me.Msg.GetAccount().GetId()
	_, err = platformv1connect.NewRuntimeServiceClient(http.DefaultClient, w.url).RegisterRuntime(t.Context(), authorised(w, &platformv1.RegisterRuntimeRequest{
		Name: "taken", Namespace: "slipway", Cluster: "other", ClusterUid: "uid", Version: "0.1.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	}))
	must.Do(t, err)
	return w
}

func authorised[T any](w *world, message *T) *connect.Request[T] {
	request := connect.NewRequest(message)
	request.Header().Set("Authorization", "Bearer "+w.keys["admin"])
	return request
}

// startPlatform runs a platform until the test ends, and gives its folder.
func (w *world) startPlatform(t *testing.T) string {
	t.Helper()
	listener := programs.Listen(t, "")
	dir, health := t.TempDir(), &observe.Health{}
	w.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, server.Options{
			Database: secret.New("sqlite://" + filepath.Join(dir, "platform.db")), Key: secret.New(strings.Repeat("k", 32)),
			Listener: listener, ControlDir: dir, PublicURL: &url.URL{Scheme: "http", Host: listener.Addr().String()},
			TunnelURL: "ws://" + listener.Addr().String(), FirstStart: server.FirstStart{Account: "Example", Email: adminEmail, Announce: func(string, secret.Text) error { return nil }},
			Log: slog.New(slog.DiscardHandler), Metrics: observe.NewMetrics("1.0.0", "commit"), Health: health, Version: "1.0.0",
		})
	}()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the platform ended with %v", err)
		}
	})
	programs.Until(t, "the platform is ready", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("the platform ended with %v", err)
		default:
		}
		return health.Ready()
	})
	return dir
}

func (w *world) key(t *testing.T, dir, email, scope string) string {
	t.Helper()
	var answer strings.Builder
	query := url.Values{"email": {email}, "name": {"tests-" + scope}, "scope": {scope}, "life": {"1h"}}
	must.Do(t, server.SendCommand(t.Context(), dir, "/users/create-key?"+query.Encode(), &answer))
	return strings.TrimSpace(answer.String())
}

// secret puts a Secret into a namespace.
func (w *world) secret(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	_, err := w.cluster.Client.CoreV1().Secrets(namespace).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	must.Do(t, err)
}

// values fills the places of a text: URL, ACCOUNT, and the keys.
func (w *world) values(text string) string {
	return strings.NewReplacer("URL", w.url, "ACCOUNT", w.account, "ADMIN", w.keys["admin"], "REGISTER", w.keys["register"],
		"READER", w.keys["read"], "SOMEBODY", w.keys["user"]).Replace(text)
}

func (w *world) run(t *testing.T, namespace, text string) validate.Report {
	t.Helper()
	return validate.Run(t.Context(), validate.Options{Values: strings.NewReader(w.values(text)), Namespace: namespace, World: w.live})
}
