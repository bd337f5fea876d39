"""Logs in shards: files of whole tasks, for more annotations than memory holds, and for machines that share work.

A *shard* is a run of bytes (``rust/categorical/shards.rs`` specifies how it is laid out): whole tasks, 4 bytes per
annotation and 1 per task, with checksums. ``_core.Shard.of(table)`` makes one of a table whose workers are the whole
crowd, ``to_bytes()`` gives it away, ``_core.Shard(bytes)`` and ``_core.Shard.read(path)`` take it back, or reject what
is damaged, foreign or of another version. A shard numbers its workers in a way of its own and knows where they stand
in the crowd (``who()``).

A *driver* runs the loops of EM over shards, wherever they are. It is an object with the sizes ``n_workers``,
``n_classes`` and ``n_labels`` of the log and three methods, which ``em_fit``, ``bayes_fit`` and ``hierarchy_fit`` call
in place of a table (`Sharded` is one, for a directory of files):

* ``open(counts=, classes=, model=, start=, seed=)``: for each shard ``shard.em_open(first=…, gold=…, **how)``,
* ``gather(factors, prior, counts=, classes=, …)``: ``shard.em_gather(factors, prior, gold=…, **how)``, and the sum of
  what they return,
* ``conclude(factors, prior, model=)``: the log-evidence of ``shard.em_answers``, which gives the answers under the
  factors of the last pass too.

``first`` is the number of the shard's first task among all, ``gold`` the known classes of its tasks. Each call adds the
sums of one shard, made apart, to ``counts`` and ``classes``: if every shard's are added in the order of the shards, by
any driver, the results are the same bits. A pass depends on its shard and its arguments alone, so that one that
failed may be run again.

Votes need no loop: ``shard.table().vote_shares(weights[shard.who()])``. The default's average is `Pooled`, a
shard at a time, and what `Table.error_correlation` looks at are the tasks of ``_core.correlation_sample``.
"""
