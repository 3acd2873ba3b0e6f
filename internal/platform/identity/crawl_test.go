package identity_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// crawlTable is who may call which procedure of the platform. A cell is yes, 401
// (unauthenticated) or 403 (not permitted). The callers: anonymous; a
// restricted user; a viewer; an operator; an admin; an admin whose password is good once; keys of an admin to read and to
// register; the same of an operator; a key that has expired; a runtime.
const crawlTable = `
procedure                            nobody     restricted viewer     operator   admin      once       read       register   uread      ureg       expired    runtime
AuthService/SignIn                   yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes
AuthService/CompleteSignIn           yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes
AuthService/Methods                  yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes
AuthService/Me                       401        yes        yes        yes        yes        yes        yes        yes        yes        yes        401        403
AuthService/SignOut                  401        yes        yes        yes        yes        yes        403        403        403        403        401        403
AuthService/ChangePassword           401        yes        yes        yes        yes        yes        403        403        403        403        401        403
AccountService/GetAccount            401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
AccountService/UpdateAccount         401        403        403        403        yes        403        403        403        403        403        401        403
AccountService/ListUsers             401        403        403        403        yes        403        yes        403        403        403        401        403
AccountService/CreateUser            401        403        403        403        yes        403        403        403        403        403        401        403
AccountService/UpdateUser            401        403        403        403        yes        403        403        403        403        403        401        403
AccountService/ResetPassword         401        403        403        403        yes        403        403        403        403        403        401        403
AccountService/ResetSecondFactor     401        403        403        403        yes        403        403        403        403        403        401        403
AccountService/DeleteUser            401        403        403        403        yes        403        403        403        403        403        401        403
SecondFactorService/ListFactors      401        yes        yes        yes        yes        yes        403        403        403        403        401        403
SecondFactorService/BeginTOTP        401        yes        yes        yes        yes        yes        403        403        403        403        401        403
SecondFactorService/FinishTOTP       401        yes        yes        yes        yes        yes        403        403        403        403        401        403
SecondFactorService/BeginPasskey     401        yes        yes        yes        yes        yes        403        403        403        403        401        403
SecondFactorService/FinishPasskey    401        yes        yes        yes        yes        yes        403        403        403        403        401        403
SecondFactorService/RemoveFactor     401        yes        yes        yes        yes        yes        403        403        403        403        401        403
SecondFactorService/CreateRecoveryCodes 401        yes        yes        yes        yes        yes        403        403        403        403        401        403
KeyService/CreateKey                 401        yes        yes        yes        yes        403        403        403        403        403        401        403
KeyService/ListKeys                  401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
KeyService/RevokeKey                 401        yes        yes        yes        yes        403        403        403        403        403        401        403
AuditService/ListEntries             401        403        403        403        yes        403        yes        403        403        403        401        403
RuntimeService/RegisterRuntime       401        403        403        403        yes        403        403        yes        403        403        401        403
RuntimeService/CheckName             401        403        403        403        yes        403        yes        yes        403        403        401        403
RuntimeService/ValidateValues        401        403        403        403        yes        403        yes        yes        403        403        401        403
RuntimeService/ListRuntimes          401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
RuntimeService/GetRuntime            401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
RuntimeService/WatchRuntimes         401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
RuntimeService/UpdateRuntime         401        403        403        403        yes        403        403        403        403        403        401        403
RuntimeService/DeleteRuntime         401        403        403        403        yes        403        403        403        403        403        401        403
RuntimeService/UninstallRuntime      401        403        403        403        yes        403        403        403        403        403        401        403
RuntimeService/RevokeCredentials     401        403        403        403        yes        403        403        403        403        403        401        403
GitService/GetGitSettings            401        403        yes        yes        yes        403        yes        yes        yes        yes        401        403
GitService/GetTokenHelp              401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
GitService/SetGitSettings            401        403        403        403        yes        403        403        403        403        403        401        403
GitService/ResetGitSettings          401        403        403        403        yes        403        403        403        403        403        401        403
ApplicationService/ListApplications  401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
ApplicationService/WatchApplications 401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
ApplicationService/CheckAccess       401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
HistoryService/ListDeployments       401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
HistoryService/GetDora               401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
HistoryService/GetTrafficHistory     401        yes        yes        yes        yes        403        yes        403        yes        403        401        403
HistoryService/GetHistoryStatus      401        403        yes        yes        yes        403        yes        403        yes        403        401        403
AgentService/RenewCredential         yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes        yes
AgentService/Heartbeat               401        403        403        403        403        403        403        403        403        403        401        yes
AgentService/Report                  401        403        403        403        403        403        403        403        403        403        401        yes
AgentService/ReportTraffic           401        403        403        403        403        403        403        403        403        403        401        yes
AgentService/ReadApplications        401        403        403        403        403        403        403        403        403        403        401        yes
AgentService/Unregister              401        403        403        403        403        403        403        403        403        403        401        yes
`

// R32, R128: every procedure with every caller, over HTTP, as in the permission
// table.
func TestCrawl(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	callers := crawlers(w)
	lines := strings.Split(strings.TrimSpace(crawlTable), "\n")
	columns := strings.Fields(lines[0])[1:]
	const prefix = "/slipway.platform.v1."
	missing := make(map[string]bool)
	for _, procedure := range permission.Procedures() {
		if strings.HasPrefix(procedure, prefix) {
			missing[procedure] = true
		}
	}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		procedure := prefix + cells[0]
		if !missing[procedure] {
			t.Errorf("%s is no procedure, or is in the table twice", procedure)
		}
		delete(missing, procedure)
		for n, column := range columns {
			if got := crawl(t, callers[column](), procedure); got != cells[n+1] {
				t.Errorf("%s as %s: %s, the table says %s", cells[0], column, got, cells[n+1])
			}
		}
	}
	for procedure := range missing {
		t.Errorf("%s is not in the table", procedure)
	}
}

// crawlers makes each caller of the table. Sessions are shared, but for those that
// a call would end.
func crawlers(w *world) map[string]func() *person {
	w.t.Helper()
	admin := w.admin()
	bob, _ := w.user(admin)
	created, err := admin.accounts().CreateUser(w.t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: "once@example.com", Role: platformv1.Role_ROLE_ADMIN}))
	must(w.t, err)
	session := func(email, password string) func() *person {
		var p *person
		return func() *person {
			if p == nil || p.cookie() == "" {
				p = w.nobody()
				_, err := p.signIn(email, password)
				must(w.t, err)
			}
			return p
		}
	}
	key := func(of *person, scope platformv1.Scope) func() *person {
		text := of.key(scope.String(), 0, scope).GetSecret()
		return func() *person { return w.bearer(text) }
	}
	another := func(email string, role platformv1.Role) func() *person {
		made, err := admin.accounts().CreateUser(w.t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: email, Role: role}))
		must(w.t, err)
		w.choose(session(email, made.Msg.GetOneTimePassword())(), made.Msg.GetOneTimePassword(), userPassword)
		return session(email, userPassword)
	}
	viewer := another("viewer@example.com", platformv1.Role_ROLE_VIEWER)
	restricted := another("restricted@example.com", platformv1.Role_ROLE_RESTRICTED)
	// A user who was an admin once may have keys of then.
	w.changeUser(userEmail, func(bob *store.User) { bob.Role = store.RoleAdmin })
	old := key(bob, platformv1.Scope_SCOPE_RUNTIME_REGISTER)
	w.changeUser(userEmail, func(bob *store.User) { bob.Role = store.RoleOperator })
	callers := map[string]func() *person{
		"nobody": w.nobody, "restricted": restricted, "viewer": viewer, "operator": session(userEmail, userPassword), "admin": session(adminEmail, adminPassword),
		"once": session("once@example.com", created.Msg.GetOneTimePassword()),
		"read": key(admin, platformv1.Scope_SCOPE_READ), "register": key(admin, platformv1.Scope_SCOPE_RUNTIME_REGISTER),
		"uread": key(bob, platformv1.Scope_SCOPE_READ), "ureg": old,
	}
	expired := admin.key("expired", time.Minute).GetSecret()
	w.clock.forward(2 * time.Minute)
	callers["expired"] = func() *person { return w.bearer(expired) }
	token, _, err := w.signer.RuntimeAccess(store.Runtime{ID: "0123456789abcdef01234567", AccountID: admin.account(), Name: "prod"}, 1)
	must(w.t, err)
	callers["runtime"] = func() *person { return w.bearer(token) }
	return callers
}

// crawl calls a procedure with an empty message. Any error of the service itself
// about that, it was let in.
func crawl(t *testing.T, p *person, procedure string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client := connect.NewClient[emptypb.Empty, emptypb.Empty](p.http, p.w.url+procedure)
	var err error
	if strings.Contains(procedure, "/Watch") {
		var stream *connect.ServerStreamForClient[emptypb.Empty]
		if stream, err = client.CallServerStream(ctx, connect.NewRequest(&emptypb.Empty{})); err == nil {
			stream.Receive()
			err = stream.Err()
			cancel()
			_ = stream.Close()
		}
	} else {
		_, err = client.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
	}
	switch code := connect.CodeOf(err); {
	case err == nil:
		return "yes"
	case code == connect.CodeUnauthenticated && strings.Contains(err.Error(), "the email or the password is wrong"):
		return "yes"
	case code == connect.CodeUnauthenticated:
		return "401"
	case code == connect.CodePermissionDenied:
		return "403"
	case code == connect.CodeInternal || code == connect.CodeUnknown || code == connect.CodeUnavailable || code == connect.CodeDeadlineExceeded:
		return fmt.Sprint(err)
	}
	return "yes"
}

// A procedure without a row is denied to every caller, including admins.
func TestAuthoriseWithoutARow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	request := caller(t, w, admin)
	for _, procedure := range []string{"/slipway.platform.v1.AccountService/Forgotten", "", "AccountService"} {
		if err := w.identity.Authorise(request, procedure); err == nil {
			t.Errorf("%q is allowed", procedure)
		}
	}
	if err := w.identity.Authorise(request, "/slipway.runtime.v1.ApplicationService/Sync"); err != nil {
		t.Errorf("an admin may not sync: %v", err)
	}
	if err := w.identity.Authorise(identity.Caller{}, "/slipway.runtime.v1.ApplicationService/Sync"); err == nil {
		t.Error("nobody may sync")
	}
}
