"""Write the logs of this folder with the tools themselves, offline: ``python generate.py inspect`` and so on.

Each tool runs in an environment of its own (``pip install inspect_ai``, ``lm-eval``, ``deepeval``, ``mlflow-skinny``,
``opentelemetry-sdk``); docs/labeling-tools.md has the versions. No model and no network is involved: verdicts are
drawn from a generator with a fixed seed.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ITEMS = 6
#: How often each judge is right, and how often it says nothing that can be parsed.
JUDGES = {"judge-a": (0.9, 0.0), "judge-b": (0.8, 0.1), "judge-c": (0.6, 0.0)}


def _truth(item: int) -> bool:
    return item % 3 != 0


def inspect() -> None:
    """Two systems and two epochs judged by three models, and once by matching; then three models as one panel."""
    from inspect_ai import Epochs, Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import match, model_graded_qa
    from inspect_ai.solver import generate

    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # otherwise counted with a download

    def said(name, seed, *, system=False):
        draw = random.Random(seed)

        def output(input, tools, tool_choice, config):
            item = int(input[-1].text.split("number ")[1].split("?")[0].split()[0])
            if system:
                content = str(item * item if _truth(item) == (draw.random() < 0.8) else 0)
            else:
                right, mute = JUDGES[name]
                verdict = _truth(item) == (draw.random() < right)
                content = "No opinion." if draw.random() < mute else f"Short.\nGRADE: {'C' if verdict else 'I'}"
            done = ModelOutput.from_content(f"mockllm/{name}", content)
            done.usage = usage
            return done

        return get_model(f"mockllm/{name}", custom_outputs=output, memoize=False)

    for place, (system, form) in enumerate((("system-1", "eval"), ("system-2", "eval"), ("system-1", "json"))):
        task = Task(
            name="squares",
            dataset=[Sample(id=f"q{i}", input=f"What is number {i} squared?", target=str(i * i)) for i in range(ITEMS)],
            solver=generate(),
            scorer=[*(model_graded_qa(model=said(name, seed)) for seed, name in enumerate(JUDGES)), match()],
            epochs=Epochs(1 if form == "json" else 2),
        )
        with tempfile.TemporaryDirectory() as folder:
            (log,) = eval(
                task,
                model=said(system, 7 + place, system=True),
                log_dir=folder,
                log_format=form,
                display="none",
                max_samples=1,
                max_connections=1,
            )
            if log.status != "success":
                sys.exit(f"{log.error.message[:500]}")
            (HERE / f"inspect_{system}.{form}").write_bytes(Path(log.location).read_bytes())

    task = Task(
        name="squares",
        dataset=[Sample(id=f"q{i}", input=f"What is number {i} squared?", target=str(i * i)) for i in range(ITEMS)],
        solver=generate(),
        scorer=model_graded_qa(model=[said(name, seed) for seed, name in enumerate(JUDGES)]),
    )
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(
            task,
            model=said("system-1", 7, system=True),
            log_dir=folder,
            log_format="eval",
            display="none",
            max_samples=1,
            max_connections=1,
        )
        if log.status != "success":
            sys.exit(f"{log.error.message[:500]}")
        (HERE / "inspect_panel.eval").write_bytes(Path(log.location).read_bytes())


def lm_eval() -> None:
    """One generated task with two filters and one of choices, of two dummy models."""
    import json

    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.models.dummy import DummyLM
    from lm_eval.tasks import TaskManager

    class Solver(DummyLM):
        def __init__(self, seed):
            super().__init__()
            self.draw = random.Random(seed)

        def generate_until(self, requests, disable_tqdm=False):
            return [f"So: the answer is {self.draw.choice((4, 9, 16))}." for _ in requests]

        def loglikelihood(self, requests, disable_tqdm=False):
            return [(-self.draw.random(), False) for _ in requests]

    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        rows = [{"question": f"{i} squared?", "answer": str(i * i), "wrong": str(i + 1)} for i in range(2, 2 + ITEMS)]
        (folder / "data.json").write_text("\n".join(map(json.dumps, rows)))
        shared = f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {folder}/data.json\ntest_split: test\n"
        (folder / "squares.yaml").write_text(
            f"task: squares\n{shared}output_type: generate_until\n"
            "doc_to_text: '{{question}}'\ndoc_to_target: '{{answer}}'\n"
            "metric_list:\n  - metric: exact_match\n    aggregation: mean\n    higher_is_better: true\n"
            "filter_list:\n"
            "  - name: strict-match\n    filter:\n      - function: regex\n        regex_pattern: 'answer is (16)'\n"
            "      - function: take_first\n"
            "  - name: flexible-extract\n    filter:\n      - function: regex\n        regex_pattern: '([0-9]+)'\n"
            "      - function: take_first\n"
        )
        (folder / "squares_mc.yaml").write_text(
            f"task: squares_mc\n{shared}output_type: multiple_choice\n"
            "doc_to_text: '{{question}}'\ndoc_to_choice: '{{[answer, wrong]}}'\ndoc_to_target: 0\n"
            "metric_list:\n  - metric: acc\n  - metric: acc_norm\n"
        )
        for seed, name in enumerate(("dummy-1", "dummy-2")):
            done = simple_evaluate(
                model=Solver(seed),
                tasks=["squares", "squares_mc"],
                task_manager=TaskManager(include_path=text, include_defaults=False),
                log_samples=True,
                bootstrap_iters=0,
            )
            tracker = EvaluationTracker(output_path=text)
            tracker.general_config_tracker.model_name_sanitized = name
            tracker.date_id = "2026-01-01T00-00-00.000000"  # otherwise set by saving the aggregated results
            samples = done.pop("samples")
            for task in samples:
                tracker.save_results_samples(task_name=task, samples=samples[task])
            target = HERE / "lm_eval" / name
            target.mkdir(parents=True, exist_ok=True)
            for old in target.glob("*"):
                old.unlink()
            for path in sorted((folder / name).glob("samples_*.jsonl")):
                (target / path.name).write_bytes(path.read_bytes())


def deepeval() -> None:
    """Two metrics by two judges, one of which fails once, as the files of two runs."""
    import os

    os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "CONFIDENT_TRACE_FLUSH": "NO"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        from deepeval import evaluate
        from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
        from deepeval.metrics import BaseMetric
        from deepeval.test_case import LLMTestCase

        class Judged(BaseMetric):
            def __init__(self, name, judge, seed):
                self.threshold, self.evaluation_model, self.name = 0.5, judge, name
                self.async_mode, self.include_reason, self.strict_mode = False, True, False
                self.draw, self.mute = random.Random(seed), judge == "judge-b" and name == "Faithfulness"

            @property
            def __name__(self):
                return self.name

            def measure(self, case, *args, **others):
                self.error, value = None, round(self.draw.random(), 2)
                if self.mute and case.name == "case-2":
                    raise ValueError("Evaluation LLM outputted an invalid JSON.")
                self.score, self.success, self.reason = value, value >= self.threshold, f"Scored {value}."
                return value

            async def a_measure(self, case, *args, **others):
                return self.measure(case)

            def is_successful(self):
                return bool(self.success)

        cases = [
            LLMTestCase(name=f"case-{i}", input=f"{i} squared?", actual_output=str(i * i), expected_output=str(i * i))
            for i in range(ITEMS)
        ]
        for judge in ("judge-a", "judge-b"):
            metrics = [Judged(name, judge, f"{judge} {name}") for name in ("Faithfulness", "Answer Relevancy")]
            evaluate(
                cases,
                metrics,
                async_config=AsyncConfig(run_async=False),
                cache_config=CacheConfig(write_cache=False),
                display_config=DisplayConfig(show_indicator=False, print_results=False),
                error_config=ErrorConfig(ignore_errors=True),
            )
            (HERE / f"deepeval_{judge}.json").write_bytes(Path(".deepeval/.latest_run_full.json").read_bytes())


def mlflow() -> None:
    """Traces with feedback of two judges and a person, one failure, and what was expected; a line each."""
    import os

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false"}
        import mlflow
        from mlflow.entities import AssessmentError, AssessmentSource, AssessmentSourceType

        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        mlflow.set_experiment("panel")
        draw = random.Random(5)
        for i in range(ITEMS):
            with mlflow.start_span(name="answer") as span:
                span.set_inputs({"question": f"{i} squared?"})
                span.set_outputs(str(i * i))
            trace = span.trace_id
            for judge in ("judge-a", "judge-b"):
                source = AssessmentSource(AssessmentSourceType.LLM_JUDGE, judge)
                if judge == "judge-b" and i == 2:
                    error = AssessmentError("PARSE_ERROR", "no verdict in the response")
                    mlflow.log_feedback(trace_id=trace, name="correct", source=source, error=error)
                else:
                    value = draw.random() < 0.7
                    mlflow.log_feedback(trace_id=trace, name="correct", value=value, source=source, rationale="So.")
                mlflow.log_feedback(trace_id=trace, name="clarity", value=round(draw.random(), 2), source=source)
            if i < 4:
                person = AssessmentSource(AssessmentSourceType.HUMAN, "ann@example.org")
                mlflow.log_feedback(trace_id=trace, name="correct", value=True, source=person)
                mlflow.log_expectation(trace_id=trace, name="correct", value=_truth(i), source=person)
        mlflow.flush_trace_async_logging()
        traces = sorted(mlflow.search_traces(return_type="list"), key=lambda one: one.info.request_time)
        (HERE / "mlflow.jsonl").write_text("".join(f"{trace.to_json()}\n" for trace in traces))


def otel() -> None:
    """Evaluation events of two judges about responses, as the exporter of files writes them."""
    import logging

    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai

    logging.disable()
    target = HERE / "otel.jsonl"
    target.unlink(missing_ok=True)
    draw = random.Random(6)
    for judge in ("judge-a", "judge-b"):
        provider = LoggerProvider(Resource({"service.name": judge}))
        provider.add_log_record_processor(SimpleLogRecordProcessor(FileLogExporter(target)))
        logger = provider.get_logger("evaluator")
        for i in range(ITEMS):
            said = {gen_ai.GEN_AI_EVALUATION_NAME: "relevance", "gen_ai.response.id": f"resp-{i}"}
            if judge == "judge-b" and i == 2:
                said["error.type"] = "timeout"
            else:
                value = draw.random()
                said |= {
                    gen_ai.GEN_AI_EVALUATION_SCORE_VALUE: round(value, 2),
                    gen_ai.GEN_AI_EVALUATION_SCORE_LABEL: "relevant" if value > 0.4 else "not_relevant",
                    gen_ai.GEN_AI_EVALUATION_EXPLANATION: "So.",
                }
            logger.emit(
                LogRecord(
                    timestamp=1_780_000_000_000_000_000 + i,
                    severity_number=SeverityNumber.INFO,
                    event_name="gen_ai.evaluation.result",
                    attributes=said,
                )
            )
        provider.shutdown()


if __name__ == "__main__":
    for tool in sys.argv[1:]:
        globals()[tool]()
