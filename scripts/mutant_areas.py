"""Which tests judge changes of which files, for mutants.py: by areas, each with its own score."""

from __future__ import annotations

from collections.abc import Sequence

#: Tests of one thing that are more than one file.
TABLES = ("test_annotations", "test_building", "test_bad_columns", "test_contents")
FILES = ("test_persist", "test_persist_refusals")
COMMANDS = ("cli/test_aggregate", "cli/test_commands", "cli/test_failures")
IMPORTERS = ("test_formats*", "test_preannotations")

#: Modules of each area, and the tests that cover them: quick ones first, since the first that fails ends a run.
AREAS: dict[str, dict[str, Sequence[str]]] = {
    "learn": {
        "train/batch": ["test_learn_batches", "test_learn_losses", "test_learn_training", "test_learners"],
        "train/*": ["test_learn_batches", "test_learn_training", "test_learners", "test_deferrals"],
        "learn/*": [
            "test_learn_losses",
            "test_learn_batches",
            "test_learn_training",
            "test_learners",
            "test_learn_recovery",
        ],
    },
    "defer": {
        "defer/assignment": ["test_defer_kernels", "test_defer_decisions"],
        "defer/projection": ["test_defer_kernels", "test_defer_decisions"],
        "defer/decision": ["test_defer_decisions", "test_defer_methods", "test_deferrals"],
        "defer/measures": ["test_defer_decisions", "test_defer_methods", "test_deferrals"],
        "defer/*": [
            "test_defer_losses",
            "test_defer_decisions",
            "test_defer_methods",
            "test_deferrals",
            "test_defer_recovery",
        ],
    },
    "aggregators": {
        "aggregators/voting": ["test_voting", "test_aggregators"],
        "aggregators/em": ["test_em", "test_em_settings", "test_aggregators"],
        "aggregators/bayes": ["test_bayes", "test_gibbs", "test_aggregators"],
        "aggregators/_chains": ["test_gibbs", "test_bayes"],
        "aggregators/hierarchical": ["test_bayes", "test_aggregators"],
        "aggregators/communities": ["test_communities", "test_aggregators"],
        "aggregators/online": ["test_online", "test_aggregators"],
        "aggregators/sparse": ["test_sparse", "test_aggregators"],
        "aggregators/competence": ["test_competence", "test_aggregators"],
        "aggregators/entropy": ["test_entropy", "test_aggregators"],
        "aggregators/margin": ["test_margin", "test_aggregators"],
        "aggregators/skills": ["test_skills", "test_aggregators"],
        "aggregators/messages": ["test_skills", "test_aggregators"],
        "aggregators/consensus": ["test_dependence", "test_bayes", "test_aggregators", *COMMANDS],
        "aggregators/_calibration": ["test_dependence", "test_bayes"],
        "aggregators/_agreement": ["test_voting", "test_skills", "test_aggregators"],
        "aggregators/_excess": ["test_audit_groups"],
        "aggregators/_groups": ["test_audit_groups", "test_aggregators"],
        "aggregators/grouped": ["test_audit_groups", "test_aggregators"],
        "aggregators/elimination": ["test_audit_spammers", "test_aggregators"],
        "aggregators/*": ["test_moment_methods", "test_factor", "test_aggregators"],
        "aggregators/base": ["test_voting", *FILES, "test_process", "test_aggregators"],
        "aggregators/posterior": ["test_sparse", "test_voting", *FILES, "test_aggregators"],
        "aggregators/confusion": ["test_sparse", "test_kinds", "test_voting", *FILES, "test_aggregators"],
        "estimator": ["test_voting", *FILES, "test_process", "test_aggregators"],
    },
    "agreement, metrics, moments": {
        "agreement/*": ["test_agreement_figures", "test_agreement"],
        "metrics/*": ["test_metrics", "test_calibration", "test_metrics_workers", "test_metrics_gold"],
        "moments/*": ["test_moments", "test_diagnosis", "test_moment_methods"],
    },
    "data": {
        "table/annotations": [*TABLES, "test_answers", *FILES],
        "table/answers": [*TABLES, "test_answers", *FILES],
        "table/soft": ["test_answers", *TABLES],
        "table/ids": [*TABLES, "test_io"],
        "table/building": [*TABLES, "test_answers", "test_io"],
        "checks": ["test_settings", *TABLES, "test_answers", "test_io", "test_voting", "test_simulate"],
        "table/checks": [*TABLES, "test_answers", "test_io", "test_voting", "test_simulate"],
        "table/names": ["test_ids", "test_encoding", *TABLES, "test_io", "test_gold", *FILES],
        "table/values": ["test_ids", "test_encoding", *TABLES],
        "table/arrow": ["test_ids", "test_encoding", *TABLES, "test_sources"],
        "table/labels": [*TABLES, "test_answers", "test_sources"],
        "table/dense": ["test_dense"],
        "table/overlap": ["test_overlap"],
        "table/limits": ["test_limits", "test_process"],
        "table/frames": ["test_io", *TABLES],
        "table/gold": ["test_gold", *COMMANDS],
        "table/description": ["test_contents", *COMMANDS],
        "table/kinds": ["test_kinds", "test_ratings_table"],
        "table/ratings": ["test_ratings_table"],
        "table/order": ["test_audit_groups", "cli/test_audit"],
        "table/*": [*TABLES, "test_kinds", "test_ratings_table", "test_io"],
        "simulate/synthetic": ["test_synthetic"],
        "simulate/*": ["test_simulate", "test_synthetic"],
        "kinds": ["test_kinds", "test_ratings_table"],
    },
    "tables of other kinds": {
        "table/tags": ["test_sequences_table"],
        "table/sequences": ["test_sequences_table", "test_sequences"],
        "table/readings": ["test_sequences_table", "test_formats_spans"],
        "table/spans": ["test_sequences_table", "test_formats_spans"],
        "table/conll": ["test_sequences_table"],
        "table/words": ["test_texts", "test_sequences_table"],
        "table/texts": ["test_texts"],
        "table/boxes": ["test_boxes"],
        "table/masks": ["test_masks"],
        "table/regions": ["test_masks", "test_formats_shapes"],
        "table/sets": ["test_multilabel", "test_kinds"],
        "table/comparisons": ["test_comparisons", "test_pairwise"],
        "table/rankings": ["test_comparisons", "test_pairwise"],
        "table/records": ["test_kinds", "test_comparisons", "test_multilabel", "test_boxes"],
        "table/columns": ["test_kinds", "test_comparisons", "test_multilabel", "test_boxes"],
        "table/items": ["test_comparisons", "test_pairwise"],
        "table/beside": ["test_kinds", "test_comparisons", "test_multilabel", "test_boxes"],
        "table/html": ["test_contents", "test_kinds", "test_multilabel"],
        "simulate/_makers": ["test_simulate", "test_comparisons", "test_multilabel", "test_boxes"],
        "simulate/boxes": ["test_boxes"],
        "simulate/masks": ["test_masks"],
        "simulate/sets": ["test_multilabel"],
        "simulate/texts": ["test_texts"],
        "simulate/sequences": ["test_sequences"],
        "simulate/comparisons": ["test_comparisons", "test_pairwise"],
        "simulate/rankings": ["test_comparisons", "test_pairwise"],
        "simulate/ratings": ["test_ratings", "test_numeric", "test_ordinal"],
    },
    "importers": {
        "table/formats/*": IMPORTERS,
        "table/sources": ["test_sources", "test_io"],
        "table/streams": ["test_sources", "test_io"],
        "table/io": ["test_io", "test_sources", *COMMANDS],
    },
    "shards": {
        "table/shards/*": ["test_shards", "test_shard_faults"],
    },
    "same or different, any kind": {
        "similarity/*": ["test_similarity_kernels", "test_similarity", "test_similarity_checks"],
        "table/similarities": ["test_similarities_table"],
        "simulate/similarities": ["test_similarity"],
        "testing/similarities": ["test_similarity_checks"],
        "distance": ["test_distance"],
        "table/objects": ["test_distance"],
    },
    "audit": {
        "audit/colluders": ["test_audit_colluders", "test_audit_review"],
        "audit/worth": ["test_audit_worth", "test_worth"],
        "audit/review": ["test_audit_review", "cli/test_audit"],
        "audit/result": ["test_audit_result", "test_audit_spammers", "test_audit_colluders"],
        "audit/spammers": ["test_audit_spammers"],
        "audit/_covariance": ["test_audit_spammers", "test_audit_colluders"],
        "audit/*": ["test_audit_groups", "test_audit_review"],
    },
    "other libraries' interfaces": {
        "compat/_competence": ["test_compat_competence", "test_compat_parity"],
        "compat/_skills": ["test_compat_skills", "test_compat_parity"],
        "compat/_em": ["test_compat_em", "test_compat_parity"],
        "compat/_voting": ["test_compat_voting", "test_compat_parity"],
        "compat/_pairwise": ["test_compat_pairwise", "test_compat_parity"],
        "compat/_sets": ["test_compat_sets", "test_compat_parity"],
        "compat/*": ["test_compat_crowdkit", "test_compat_shapes", "test_compat_parity"],
    },
    "command line": {
        "cli/audit": ["cli/test_audit"],
        "cli/completion": ["cli/test_shapes"],
        "cli/*": ["cli/*"],
    },
    "files, pictures, reports, check-lists": {
        "table/persist": [*FILES, *TABLES],
        "progress": ["test_process"],
        "plots/*": ["test_plots"],
        "report/*": ["test_report"],
        "testing/*": ["test_testing"],
        "testing/networks": ["test_testing_networks"],
        "testing/deep": ["test_testing_networks"],
    },
    "numbers, grades, sets": {
        "numeric/*": ["test_numeric_kernels", "test_numeric", "test_numeric_recovery"],
        "ordinal/*": ["test_ordinal"],
        "multilabel/*": ["test_multilabel"],
    },
    "pairs, sequences, texts": {
        "pairwise/*": ["test_pairwise", "test_comparisons"],
        "sequences/*": ["test_sequences"],
        "texts/*": ["test_texts"],
    },
    "boxes, masks": {
        "boxes/*": ["test_boxes"],
        "masks/*": ["test_masks"],
    },
    "collecting, fairness, spark": {
        "collect/*": ["test_collect", "test_campaign"],
        "fairness/*": ["test_fairness"],
        "spark/*": ["test_spark_apart", "test_spark"],
    },
}

#: What is in no area: it gives names and does no more.
LEFT_OUT = ("__init__", "__main__", "errors")

#: Tests that run every estimator, named by its class.
CHECK_LISTS = {"test_aggregators", "test_learners", "test_deferrals"}
