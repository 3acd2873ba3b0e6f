package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// crawler is a kind of caller.
type crawler struct {
	name, token string
	// may reports whether the row of a procedure lets the caller in, and otherwise is
	// the status if not.
	may       func(permission.Rule) bool
	otherwise int
	// stranger is set for a caller of another account.
	stranger bool
}

// R32, R128: every procedure of the platform, and of a runtime through the platform,
// with every kind of caller: one without the right is refused, whatever the message is, and no
// message makes a server fail.
func (g *stage) testCrawl(t *testing.T) {
	callers := g.crawlers(t)
	random := rand.New(rand.NewPCG(6, 132))
	calls, allowed := 0, 0
	for _, procedure := range procedures() {
		rule, known := permission.Of(procedure.path)
		if !known {
			t.Errorf("%s has no row", procedure.path)
		}
		for _, caller := range callers {
			if strings.HasSuffix(procedure.path, "/Unregister") && caller.may(rule) {
				continue // it would end the caller
			}
			for _, body := range procedure.bodies(t, random) {
				calls++
				answer := g.call(t, caller.token, procedure, body)
				if answer.status == http.StatusOK {
					allowed++
				}
				if problem := caller.judge(procedure, rule, answer); problem != nil {
					t.Errorf("%s as %s with %d bytes: %v", procedure.path, caller.name, len(body), problem)
				}
			}
		}
	}
	if calls < 1500 || allowed < 50 {
		t.Errorf("of %d calls %d were answered", calls, allowed)
	}
	t.Logf("%d calls, %d answered with what was asked for", calls, allowed)
	g.east.reached(t)     // it took no harm
	g.east.credentials(t) // an admin may have changed them
}

// crawlers are all kinds of callers.
func (g *stage) crawlers(t *testing.T) []crawler {
	t.Helper()
	user := mustMessage(g.admin.accounts.CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{
		Email: "user@example.com", Name: "User", Role: platformv1.Role_ROLE_OPERATOR,
	})))(t)
	userKey := g.firstKey(t, "user@example.com", user.GetOneTimePassword(), g.canary("the password of the user", "canary0password0of0the0user"))
	expired := g.newKey(t, g.admin, &platformv1.CreateKeyRequest{Name: "expired"})
	g.expire(t, expired.GetKey().GetId())
	revoked := g.newKey(t, g.admin, &platformv1.CreateKeyRequest{Name: "revoked"})
	mustMessage(g.admin.keys.RevokeKey(t.Context(), connect.NewRequest(&platformv1.RevokeKeyRequest{Id: revoked.GetKey().GetId()})))(t)
	runtime := mustMessage(g.admin.runtimes.RegisterRuntime(t.Context(), connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: "crawler", Namespace: "slipway", Cluster: "crawler", ClusterUid: "crawler", Version: "1.0.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	})))(t).GetCredential()
	public := func(rule permission.Rule) bool { return rule.Permission == permission.Public }
	ofUser := func(rule permission.Rule) bool {
		return rule.Role(permission.RoleOperator) && rule.Permission != permission.Session
	}
	viewer := mustMessage(g.admin.accounts.CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{
		Email: "viewer@example.com", Name: "Viewer", Role: platformv1.Role_ROLE_VIEWER,
	})))(t)
	viewerKey := g.firstKey(t, "viewer@example.com", viewer.GetOneTimePassword(), g.canary("the password of the viewer", "canary0password0of0the0viewer"))
	ofViewer := func(rule permission.Rule) bool {
		return rule.Role(permission.RoleViewer) && rule.Permission != permission.Session
	}
	ofAdmin := func(rule permission.Rule) bool {
		return rule.Role(permission.RoleAdmin) && rule.Permission != permission.Session
	}
	return []crawler{
		{name: "nobody", may: public, otherwise: http.StatusUnauthorized},
		{name: "a viewer", token: viewerKey, may: ofViewer, otherwise: http.StatusForbidden},
		{name: "an operator", token: userKey, may: ofUser, otherwise: http.StatusForbidden},
		{name: "an admin", token: g.adminKey, may: ofAdmin, otherwise: http.StatusForbidden},
		{name: "a key to read", token: g.scoped(t, "read", platformv1.Scope_SCOPE_READ), otherwise: http.StatusForbidden, may: func(rule permission.Rule) bool {
			return public(rule) || ofAdmin(rule) && rule.Read
		}},
		{name: "a key to register", token: g.scoped(t, "register", platformv1.Scope_SCOPE_RUNTIME_REGISTER), otherwise: http.StatusForbidden, may: func(rule permission.Rule) bool {
			return public(rule) || rule.Permission == permission.RegisterRuntime || rule.Permission == permission.Self || rule.Registering
		}},
		{name: "a key that has expired", token: expired.GetSecret(), may: public, otherwise: http.StatusUnauthorized},
		{name: "a key that is revoked", token: revoked.GetSecret(), may: public, otherwise: http.StatusUnauthorized},
		{name: "a runtime", token: runtime.GetAccessToken(), otherwise: http.StatusForbidden, may: func(rule permission.Rule) bool {
			return public(rule) || rule.Permission == permission.RuntimeOnly
		}},
		{name: "an admin of another account", token: g.strangerKey(t), may: ofAdmin, otherwise: http.StatusForbidden, stranger: true},
	}
}

// expire ends a key in the database: no key is shorter than a minute.
func (g *stage) expire(t *testing.T, id string) {
	t.Helper()
	connection := must.Get(pgx.Connect(t.Context(), g.at.url))(t)
	changed, err := connection.Exec(t.Context(), "UPDATE api_keys SET expires_at = created_at + 1 WHERE id = $1", id)
	if err := errors.Join(err, connection.Close(t.Context())); err != nil || changed.RowsAffected() != 1 {
		t.Fatalf("the key is not changed: %v", err)
	}
}

// strangerKey is a key of the admin of another account. The platform has no
// procedure to make accounts, so that it is made in the database.
func (g *stage) strangerKey(t *testing.T) string {
	t.Helper()
	database := must.Get(store.Open(t.Context(), store.Options{URL: g.at.url}))(t)
	account, err := database.CreateAccount(t.Context(), store.Account{Name: "strangers"})
	if err == nil {
		_, err = database.CreateUser(t.Context(), store.User{AccountID: account.ID, Email: "stranger@example.com", Name: "Stranger", Role: store.RoleAdmin})
	}
	must.Do(t, errors.Join(err, database.Close()))
	printed := g.run(t, append([]string{"platform", "reset-password", "stranger@example.com"}, g.at.args...)...)
	_, rest, _ := strings.Cut(printed, "password: ")
	once, _, _ := strings.Cut(rest, "\n")
	return g.firstKey(t, "stranger@example.com", once, g.canary("the password of a stranger", "canary0password0of0a0stranger"))
}

// procedure is one of the API.
type procedure struct {
	path    string
	input   protoreflect.MessageDescriptor
	streams bool
	// runtime is set for those of a runtime.
	runtime bool
}

func procedures() (all []procedure) {
	for _, file := range []protoreflect.FileDescriptor{
		platformv1.File_slipway_platform_v1_identity_proto, platformv1.File_slipway_platform_v1_fleet_proto, platformv1.File_slipway_platform_v1_history_proto,
		runtimev1.File_slipway_runtime_v1_application_proto, runtimev1.File_slipway_runtime_v1_runtime_proto,
		runtimev1.File_slipway_runtime_v1_traffic_proto, runtimev1.File_slipway_runtime_v1_promotion_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				all = append(all, procedure{
					path: fmt.Sprintf("/%s/%s", service.FullName(), method.Name()), input: method.Input(),
					streams: method.IsStreamingServer(), runtime: strings.HasPrefix(string(file.Package()), "slipway.runtime."),
				})
			}
		}
	}
	return all
}

// bodies are the messages that a procedure is sent: nothing, something that fits,
// and something that does not.
func (p procedure) bodies(t *testing.T, random *rand.Rand) [][]byte {
	t.Helper()
	message := dynamicpb.NewMessage(p.input)
	fill(message, random, 3)
	fits := must.Get(proto.Marshal(message))(t)
	noise := make([]byte, 1+random.IntN(200))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	return [][]byte{nil, fits, noise}
}

// fill sets fields at random.
func fill(message protoreflect.Message, random *rand.Rand, depth int) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case random.IntN(3) == 0 || depth == 0 && field.Message() != nil:
		case field.IsMap():
			if field.MapValue().Kind() == protoreflect.StringKind {
				message.Mutable(field).Map().Set(protoreflect.ValueOfString(word(random)).MapKey(), protoreflect.ValueOfString(word(random)))
			}
		case field.IsList():
			list := message.Mutable(field).List()
			if field.Message() != nil {
				fill(list.AppendMutable().Message(), random, depth-1)
			} else {
				list.Append(scalar(field, random))
			}
		case field.Message() != nil:
			fill(message.Mutable(field).Message(), random, depth-1)
		default:
			message.Set(field, scalar(field, random))
		}
	}
}

// word is a text that an attacker might send.
func word(random *rand.Rand) string {
	words := []string{
		"", "a", "nobody", "../../etc/passwd", "' OR 1=1 --", "{{.}}", strings.Repeat("x", 300), "é\u202e", "0", "-1", "https://127.0.0.1:1/x", "*", "slipway-token",
	}
	return words[random.IntN(len(words))]
}

func scalar(field protoreflect.FieldDescriptor, random *rand.Rand) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(random.IntN(2) == 0)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(word(random))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(word(random)))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(random.IntN(9)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(random.Uint32()))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(random.Uint64()))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(random.Uint32())
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(random.Uint64())
	default:
		return field.Default()
	}
}

// reply is the response of a procedure: the status, also of an error that a stream
// ends with, and the code of the error.
type reply struct {
	status int
	code   string
	text   string
}

// call sends a message and reads the first response.
func (g *stage) call(t *testing.T, token string, to procedure, body []byte) reply {
	t.Helper()
	address := g.url + to.path
	if to.runtime {
		address = g.url + wire.RuntimesPath + "east" + strings.TrimSuffix(wire.AppProxyPath, "/") + to.path
	}
	content := "application/proto"
	if to.streams {
		content = "application/connect+proto"
		body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body)))(t)
	request.Header.Set("Content-Type", content)
	request.Header.Set("Connect-Protocol-Version", "1")
	response, err := programs.Bearer(token, g.answers).RoundTrip(request)
	if err != nil {
		t.Fatalf("%s: %v", to.path, err)
	}
	defer response.Body.Close()
	if to.streams && response.StatusCode == http.StatusOK {
		return firstOf(response.Body)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatalf("%s: %v", to.path, err)
	}
	var problem struct{ Code string }
	_ = json.Unmarshal(text, &problem) // an answer is no JSON
	return reply{response.StatusCode, problem.Code, string(text)}
}

// firstOf reads the first part of a stream. An error is in the last one, and the
// HTTP status does not show it.
func firstOf(body io.Reader) reply {
	var head [5]byte
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return reply{status: http.StatusBadGateway, text: err.Error()}
	}
	if head[0]&2 == 0 {
		return reply{status: http.StatusOK}
	}
	text, err := io.ReadAll(io.LimitReader(body, int64(binary.BigEndian.Uint32(head[1:]))))
	if err != nil {
		return reply{status: http.StatusBadGateway, text: err.Error()}
	}
	var end struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(text, &end); err != nil {
		return reply{status: http.StatusBadGateway, text: string(text)}
	}
	status := cmp.Or(map[string]int{"": http.StatusOK, "unauthenticated": http.StatusUnauthorized, "permission_denied": http.StatusForbidden}[end.Error.Code], http.StatusBadRequest)
	return reply{status, end.Error.Code, end.Error.Message}
}

// judge returns what is wrong with a response.
func (c crawler) judge(to procedure, rule permission.Rule, got reply) error {
	if got.status >= http.StatusInternalServerError && got.code != "unavailable" || got.code == "internal" || got.code == "unknown" || got.code == "data_loss" {
		return fmt.Errorf("it failed: %d %s", got.status, got.text)
	}
	may := c.may(rule)
	switch {
	case !may && got.status != c.otherwise:
		return fmt.Errorf("it is answered with %d, not %d: %s", got.status, c.otherwise, got.text)
	case may && rule.Permission != permission.Public && got.status == http.StatusUnauthorized:
		return fmt.Errorf("the caller is not known: %s", got.text)
	case may && c.stranger && to.runtime && got.status != http.StatusNotFound:
		return fmt.Errorf("a stranger gets %d from the runtime, not %d: %s", got.status, http.StatusNotFound, got.text)
	}
	return nil
}
