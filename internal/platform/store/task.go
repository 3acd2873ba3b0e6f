package store

import (
	"context"
	"errors"
	"time"
)

// Task is work that one replica does for all of them.
type Task struct {
	Name, Holder string
	HeldUntil    time.Time
	// FinishedAt is when it was last done completely.
	FinishedAt time.Time
	// Problem is why the last attempt failed.
	Problem string
}

func scanTask(r row) (t Task, err error) {
	return t, r.Scan(&t.Name, &t.Holder, timeColumn{&t.HeldUntil}, timeColumn{&t.FinishedAt}, &t.Problem)
}

// ClaimTask takes a task for a time, or renews it, and reports whether it is
// the holder's. A task that another replica holds becomes free when its time is
// over, so that a replica that was killed does not block it.
func (s *Store) ClaimTask(ctx context.Context, name, holder string, lease time.Duration) (bool, error) {
	now := s.timestamp()
	n, err := s.exec(ctx, `INSERT INTO maintenance_tasks (name, holder, held_until, finished_at, problem) VALUES ($1, $2, $3, 0, '')
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
		WHERE maintenance_tasks.held_until <= $4 OR maintenance_tasks.holder = excluded.holder`,
		name, holder, micros(now.Add(lease)), micros(now))
	return n == 1, err
}

// FinishTask records the result of a task if the holder still has it. The
// holder keeps it until its time is over: other replicas need not do it again.
func (s *Store) FinishTask(ctx context.Context, name, holder string, failure error) error {
	var err error
	if failure == nil {
		_, err = s.exec(ctx, "UPDATE maintenance_tasks SET finished_at = $1, problem = '' WHERE name = $2 AND holder = $3", micros(s.timestamp()), name, holder)
		return err
	}
	_, err = s.exec(ctx, "UPDATE maintenance_tasks SET problem = $1 WHERE name = $2 AND holder = $3", truncate(failure.Error(), maxName), name, holder)
	return err
}

// Task returns a task; one with only a name if no replica has claimed it yet.
func (s *Store) Task(ctx context.Context, name string) (Task, error) {
	task, err := readOne(ctx, s, scanTask, "SELECT name, holder, held_until, finished_at, problem FROM maintenance_tasks WHERE name = $1", name)
	if errors.Is(err, ErrNotFound) {
		return Task{Name: name}, nil
	}
	return task, err
}
