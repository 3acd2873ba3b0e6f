package policy

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// passwordHash matches the hashes that the edge can verify. A bcrypt hash with a
// cost over 14 would take seconds for each request.
var passwordHash = regexp.MustCompile(`^(\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}|\$apr1\$[./A-Za-z0-9]{0,8}\$[./A-Za-z0-9]{22}|\{SHA\}[A-Za-z0-9+/]{27}=)$`)

// basicAuth reads the users of a Secret into the policy. A change of the Secret
// changes the policy, and so takes effect without a restart.
func (b builder) basicAuth(f *v1alpha1.BasicAuth) (*route.BasicAuth, *refusal.Refusal) {
	body, fault := b.source.Secret(f.Secret)
	if fault != nil {
		return nil, fault.At("secret")
	}
	lines, problem := users(body)
	if problem != "" {
		return nil, refusal.New("secret", refusal.Invalid, "the Secret %s/%s %s", body.Namespace, body.Name, problem)
	}
	return &route.BasicAuth{
		Realm: f.Realm, Users: route.NewSecret(lines), UserHeader: f.UserHeader, KeepAuthorization: f.KeepAuthorization,
	}, nil
}

// users returns the lines of an htpasswd file, or the problem of the Secret.
// Two keys are accepted: users, which Traefik uses, and auth, which
// ingress-nginx uses. With both it would be unclear which one applies.
func users(body *snapshot.SecretBody) (lines, problem string) {
	if body.Type == string(corev1.SecretTypeBasicAuth) {
		return plainUser(string(body.Data[corev1.BasicAuthUsernameKey]), string(body.Data[corev1.BasicAuthPasswordKey]))
	}
	own, other := string(body.Data["users"]), string(body.Data["auth"])
	switch {
	case own != "" && other != "":
		return "", "has users and auth: keep one of the two"
	case own == "" && other == "":
		return "", "has neither users nor auth: put the lines of an htpasswd file under users"
	}
	lines = own + other
	return lines, checkUsers(lines)
}

// plainUser hashes the plain-text password of a Secret. The hash has no salt, so
// that each replica and each update gives the same line and the policy does not
// seem to change. It suits long random passwords of programs; those of people
// belong into an htpasswd file, hashed with bcrypt.
func plainUser(user, password string) (line, problem string) {
	switch {
	case user == "" || password == "":
		return "", "has no username or no password: give both"
	case strings.Contains(user, ":") || strings.ContainsFunc(user, unicode.IsControl) || !utf8.ValidString(user):
		return "", "has a username with a colon or a control character: use another one"
	case strings.TrimSpace(user) != user || strings.HasPrefix(user, "#"):
		return "", "has a username with blanks around it, or with # at its start: use another one"
	}
	sum := sha1.Sum([]byte(password))
	return user + ":{SHA}" + base64.StdEncoding.EncodeToString(sum[:]), ""
}

// checkUsers validates the lines for the edge, so that a problem is reported on the
// object. Messages have line numbers and never quote a line.
func checkUsers(text string) (problem string) {
	if !utf8.ValidString(text) {
		return "has users that are not UTF-8: write them again"
	}
	seen := map[string]int{}
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.Trim(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		user, rest, found := strings.Cut(line, ":")
		// Apache permits further fields after the hash.
		hash, _, _ := strings.Cut(rest, ":")
		switch {
		case !found || user == "" || strings.ContainsFunc(user, unicode.IsControl):
			return fmt.Sprintf("has no user:hash in line %d: make the line with htpasswd -B", number)
		case seen[user] > 0:
			return fmt.Sprintf("has the same user in line %d and line %d: remove one of them", seen[user], number)
		case !validHash(hash):
			return fmt.Sprintf("has a password in line %d that is not hashed with bcrypt (of cost 14 at most), apr1 or {SHA}: make the line with htpasswd -B", number)
		}
		seen[user] = number
	}
	// Without any user every request would get 401, which looks like a wrong
	// password.
	if len(seen) == 0 {
		return "has no users, so every request would be denied: put the lines of an htpasswd file under users"
	}
	return ""
}

// validHash checks more than the expression can: the base64 of SHA-1 hashes.
func validHash(hash string) bool {
	if !passwordHash.MatchString(hash) {
		return false
	}
	if encoded, isSHA := strings.CutPrefix(hash, "{SHA}"); isSHA {
		_, err := base64.StdEncoding.Strict().DecodeString(encoded)
		return err == nil
	}
	return true
}
