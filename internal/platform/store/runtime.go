package store

import (
	"context"
	"fmt"
	"time"
)

// Runtime is an agent in a cluster. Its name is unique in the account, and
// its namespace is unique in its cluster.
type Runtime struct {
	ID, AccountID, Name, Namespace, Cluster, ClusterUID       string
	Version, ChartVersion, KubernetesVersion                  string
	AccessMode                                                int32 // platformv1.AccessMode
	AccessURL, IngressClass                                   string
	ConfigurationRuntime, Uninstalling, CleanSharedRepository bool
	RegisteredAt, HeartbeatAt                                 time.Time
	State                                                     []byte // last HeartbeatRequest as protobuf; at most MaxRuntimeState
}

// OfflineAfter is the age of the last heartbeat at which a runtime counts as
// offline: three missed heartbeats.
const OfflineAfter = 45 * time.Second

// Online reports whether the runtime has sent a heartbeat lately.
func (r Runtime) Online(now time.Time) bool {
	return !r.HeartbeatAt.IsZero() && now.Sub(r.HeartbeatAt) < OfflineAfter
}

// MaxRuntimeState bounds the state of a runtime, in bytes.
const MaxRuntimeState = 1 << 20

const runtimeColumns = `id, account_id, name, namespace, cluster, cluster_uid, version, chart_version, kubernetes_version, access_mode,
	access_url, ingress_class, configuration_runtime, uninstalling, clean_shared_repository, registered_at, heartbeat_at, state`

// scanRuntime scans the columns of runtimeColumns.
func scanRuntime(r row) (n Runtime, err error) {
	return n, r.Scan(&n.ID, &n.AccountID, &n.Name, &n.Namespace, &n.Cluster, &n.ClusterUID, &n.Version, &n.ChartVersion, &n.KubernetesVersion,
		&n.AccessMode, &n.AccessURL, &n.IngressClass, &n.ConfigurationRuntime, &n.Uninstalling, &n.CleanSharedRepository,
		timeColumn{&n.RegisteredAt}, timeColumn{&n.HeartbeatAt}, blobColumn{&n.State})
}

// checkRuntime validates name and size of a runtime.
func checkRuntime(runtime Runtime) error {
	if runtime.Name == "" {
		return invalid("a runtime needs a name")
	}
	if len(runtime.State) > MaxRuntimeState {
		return invalid("the state of runtime %s has %d bytes; at most %d are stored", runtime.Name, len(runtime.State), MaxRuntimeState)
	}
	return nil
}

// CreateRuntime stores a runtime and sets ID and time if they are empty. If
// it is the configuration runtime, it replaces the account's current one.
func (s *Store) CreateRuntime(ctx context.Context, runtime Runtime) (Runtime, error) {
	if err := checkRuntime(runtime); err != nil {
		return Runtime{}, err
	}
	s.setDefaults(&runtime.ID, &runtime.RegisteredAt)
	err := s.write(ctx, func(c *call) error {
		// The flag moves in the same transaction: an account never has two.
		if runtime.ConfigurationRuntime {
			if err := clearConfigurationRuntime(c, runtime.AccountID, runtime.ID); err != nil {
				return err
			}
		}
		_, err := c.exec("INSERT INTO runtimes ("+runtimeColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
			runtime.ID, runtime.AccountID, runtime.Name, runtime.Namespace, runtime.Cluster, runtime.ClusterUID,
			runtime.Version, runtime.ChartVersion, runtime.KubernetesVersion, int64(runtime.AccessMode), runtime.AccessURL, runtime.IngressClass,
			runtime.ConfigurationRuntime, runtime.Uninstalling, runtime.CleanSharedRepository,
			micros(runtime.RegisteredAt), micros(runtime.HeartbeatAt), blob(runtime.State))
		c.changed(Change{Kind: ChangeRuntime, AccountID: runtime.AccountID, ID: runtime.ID})
		return orConflict(err, "a runtime with the name %s, or in the namespace %s of its cluster", runtime.Name, runtime.Namespace)
	})
	return runtime, err
}

// clearConfigurationRuntime clears the flag of all other runtimes of the
// account and announces those that had it.
func clearConfigurationRuntime(c *call, accountID, exceptID string) error {
	had, err := queryAll(c, scanText, "SELECT id FROM runtimes WHERE account_id = $1 AND configuration_runtime AND id <> $2", accountID, exceptID)
	if err != nil {
		return err
	}
	for _, id := range had {
		if _, err := c.exec("UPDATE runtimes SET configuration_runtime = FALSE WHERE id = $1", id); err != nil {
			return err
		}
		c.changed(Change{Kind: ChangeRuntime, AccountID: accountID, ID: id})
	}
	return nil
}

// RuntimeByName returns a runtime of an account.
func (s *Store) RuntimeByName(ctx context.Context, accountID, name string) (Runtime, error) {
	return readOne(ctx, s, scanRuntime, "SELECT "+runtimeColumns+" FROM runtimes WHERE account_id = $1 AND name = $2", accountID, name)
}

// RuntimeByID returns a runtime of any account.
func (s *Store) RuntimeByID(ctx context.Context, id string) (Runtime, error) {
	return readValue(ctx, s, func(c *call) (Runtime, error) { return runtimeByID(c, id) })
}

func runtimeByID(c *call, id string) (Runtime, error) {
	return queryOne(c, scanRuntime, "SELECT "+runtimeColumns+" FROM runtimes WHERE id = $1", id)
}

// Runtimes lists the runtimes of an account by name.
func (s *Store) Runtimes(ctx context.Context, accountID string, page Page) (runtimes []Runtime, next string, err error) {
	list := newListID("runtimes", accountID)
	after, err := list.after(page.Token, 1)
	if err != nil {
		return nil, "", err
	}
	var where condition
	where.add("account_id = ?", accountID)
	if after != nil {
		where.add("name > ?", after[0])
	}
	query := page.query("SELECT "+runtimeColumns+" FROM runtimes", where, "name")
	return readPage(ctx, s, query, scanRuntime, func(last Runtime) string { return list.token(last.Name) })
}

// UpdateRuntime reads a runtime, applies change and stores the result, in one
// transaction. change may be called more than once, each time with a fresh
// Runtime; its error aborts the update and is returned unchanged. ID, account
// and registration time do not change.
func (s *Store) UpdateRuntime(ctx context.Context, id string, change func(*Runtime) error) (Runtime, error) {
	var after Runtime
	err := s.write(ctx, func(c *call) error {
		before, err := runtimeByID(c, id)
		if err != nil {
			return err
		}
		// change works on a copy: a retried transaction starts again from the
		// stored row.
		after = before
		if err := change(&after); err != nil {
			return err
		}
		after.ID, after.AccountID, after.RegisteredAt = before.ID, before.AccountID, before.RegisteredAt
		after.HeartbeatAt = after.HeartbeatAt.UTC().Truncate(time.Microsecond)
		if err := checkRuntime(after); err != nil {
			return err
		}
		if after.ConfigurationRuntime && !before.ConfigurationRuntime {
			if err := clearConfigurationRuntime(c, after.AccountID, after.ID); err != nil {
				return err
			}
		}
		c.changed(Change{Kind: ChangeRuntime, AccountID: after.AccountID, ID: after.ID})
		return storeRuntime(c, after)
	})
	if err != nil {
		return Runtime{}, err
	}
	return after, nil
}

// storeRuntime writes all mutable columns of a runtime.
func storeRuntime(c *call, runtime Runtime) error {
	_, err := c.exec(`UPDATE runtimes SET name = $1, namespace = $2, cluster = $3, cluster_uid = $4, version = $5, chart_version = $6,
		kubernetes_version = $7, access_mode = $8, access_url = $9, ingress_class = $10, configuration_runtime = $11, uninstalling = $12,
		clean_shared_repository = $13, heartbeat_at = $14, state = $15 WHERE id = $16`,
		runtime.Name, runtime.Namespace, runtime.Cluster, runtime.ClusterUID, runtime.Version, runtime.ChartVersion,
		runtime.KubernetesVersion, int64(runtime.AccessMode), runtime.AccessURL, runtime.IngressClass, runtime.ConfigurationRuntime, runtime.Uninstalling,
		runtime.CleanSharedRepository, micros(runtime.HeartbeatAt), blob(runtime.State), runtime.ID)
	return orConflict(err, "a runtime with the name %s, or in the namespace %s of its cluster", runtime.Name, runtime.Namespace)
}

// SetConfigurationRuntime makes a runtime the only configuration runtime of
// its account; an empty id leaves the account without one.
func (s *Store) SetConfigurationRuntime(ctx context.Context, accountID, id string) error {
	return s.write(ctx, func(c *call) error {
		if err := clearConfigurationRuntime(c, accountID, id); err != nil || id == "" {
			return err
		}
		c.changed(Change{Kind: ChangeRuntime, AccountID: accountID, ID: id})
		return orNotFound(c.exec("UPDATE runtimes SET configuration_runtime = TRUE WHERE account_id = $1 AND id = $2", accountID, id))
	})
}

// DeleteRuntime deletes a runtime with its applications, cursor, credential
// and connections. If onlyIfSilentSince is set, a runtime with a later
// heartbeat is kept and a *ConflictError returned. Both happen in one
// transaction, so a runtime that comes back online is never deleted.
func (s *Store) DeleteRuntime(ctx context.Context, accountID, id string, onlyIfSilentSince time.Time) error {
	return s.write(ctx, func(c *call) error {
		runtime, err := runtimeByID(c, id)
		if err != nil {
			return err
		}
		if runtime.AccountID != accountID {
			return ErrNotFound
		}
		if !onlyIfSilentSince.IsZero() && runtime.HeartbeatAt.After(onlyIfSilentSince) {
			return &ConflictError{What: fmt.Sprintf("the runtime %s itself: its last heartbeat was at %s, so it is online", runtime.Name, runtime.HeartbeatAt.Format(time.RFC3339))}
		}
		if _, err := c.exec("DELETE FROM runtimes WHERE id = $1", id); err != nil {
			return err
		}
		// Three kinds, because tunnels, lists of runtimes and lists of
		// applications have different subscribers.
		for _, kind := range []ChangeKind{ChangeRuntime, ChangeCredential, ChangeApplication} {
			c.changed(Change{Kind: kind, AccountID: accountID, ID: id})
		}
		return nil
	})
}
